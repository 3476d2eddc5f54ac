"""Cache sizes: the paper's numbers, and the bytes that the caches hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.looped.cache import PlaneCache
from harness.looped.config import LoopedConfig
from harness.looped.decode import generate
from harness.looped.errors import BudgetError
from harness.looped.memory import (
    allocation_bytes,
    cache_bytes,
    layer_token_bytes,
    prompt_bytes,
    ring_columns,
    scratch_bytes,
)
from harness.looped.model import LoopedLM
from harness.looped.policies import (
    Policy,
    compress,
    deepest,
    every_nth,
    first_loops,
    full,
    last_loops,
    per_head,
    ripe,
    second_plane,
    sinks_ripe,
)
from harness.looped.published import PUBLISHED
from harness.looped.recipes import tiny_config
from tests.looped.models import CONFIGS, random_model

BASE = tiny_config(64)
HUGINN = replace(BASE, n_heads=55, n_kv_heads=55, head_dim=96, prelude=2, core=4, coda=2)
RAVEN = replace(BASE, n_heads=32, n_kv_heads=8, head_dim=64, prelude=4, core=6, coda=4)


@pytest.mark.parametrize(
    ("config", "u", "per_token", "one_token", "ripe_1024"),
    [
        (HUGINN, 21_120, 2_787_840, 168_960, 340_623_360),
        (RAVEN, 2_048, 409_600, 28_672, 53_739_520),
    ],
)
def test_published_sizes(
    config: LoopedConfig, u: int, per_token: int, one_token: int, ripe_1024: int
) -> None:
    assert layer_token_bytes(config, 2) == u
    assert cache_bytes(config, full(), 1, 32, 2) == per_token
    assert cache_bytes(config, full(), 1024, 32, 2) == 1024 * per_token
    assert cache_bytes(config, deepest(), 1, 32, 2) == one_token
    assert cache_bytes(config, ripe(64), 1024, 32, 2) == ripe_1024


def test_a_short_text_fills_only_part_of_the_window() -> None:
    long, short = (cache_bytes(BASE, ripe(w), 10, 32, 4) for w in (64, 10))
    assert long == short


HUGINN_1024 = {0: 173.015, 4: 183.491, 8: 193.966, 16: 214.917, 32: 256.819, 128: 508.232,
               256: 843.448, 1023: 2852.129}  # fmt: skip


def test_every_published_window_in_megabytes() -> None:
    for window, megabytes in HUGINN_1024.items():
        assert cache_bytes(HUGINN, ripe(window), 1024, 32, 2) / 1e6 == pytest.approx(
            megabytes, 1e-5
        )
    assert cache_bytes(HUGINN, ripe(1024), 1024, 32, 2) == cache_bytes(HUGINN, full(), 1024, 32, 2)
    for config, step in ((HUGINN, 2_618_880), (RAVEN, 380_928)):
        sizes = [cache_bytes(config, ripe(w), 1024, 32, 2) for w in (7, 8)]
        assert sizes[1] - sizes[0] == step
    assert [scratch_bytes(c, 5, 32, 2) for c in (HUGINN, RAVEN)] == [13_939_200, 2_048_000]


@pytest.mark.parametrize(
    ("name", "full_token", "one_token"),
    [
        ("huginn_0125", 2_787_840, 168_960),
        ("raven_llama_1b", 409_600, 28_672),
        ("raven_tinyllama", 270_336, 16_384),
        ("raven_olmo", 1_638_400, 114_688),
        ("ouro_1_4b", 786_432, 196_608),
        ("ouro_2_6b", 1_572_864, 393_216),
    ],
)
def test_bytes_per_token_of_the_published_shapes(
    name: str, full_token: int, one_token: int
) -> None:
    config = PUBLISHED[name]
    assert cache_bytes(config, full(), 1, config.loops, 2) == full_token
    assert cache_bytes(config, deepest(), 1, config.loops, 2) == one_token


MANY = (
    full(), deepest(), ripe(3), first_loops(3), last_loops(3), every_nth(3), sinks_ripe(2, 3),
    second_plane(2, 4), per_head((0, 5, 1, 2)), compress(8),
)  # fmt: skip


@pytest.mark.parametrize("policy", MANY, ids=lambda p: p.label)
def test_bytes_held_and_allocated_equal_the_formulas(policy: Policy) -> None:
    model = random_model(CONFIGS["huginn_0125"], dtype=torch.float32)
    cache = PlaneCache(model, policy, rows=2, capacity=20, loops=5, longest_pass=3)
    for counts in ([0, 0], [1, 0], [1, 2], [1, 1], [9, 12]):
        cache.commit(counts)
        assert cache.counted_bytes() == cache.formula_bytes()
    longest = min(3, policy.longest_pass or 3)
    ring = ring_columns(policy, longest) if cache.rings else 0
    assert cache.allocated_bytes() == allocation_bytes(
        model.config, policy, rows=2, capacity=20, ring=ring, loops=5, element_bytes=4
    )
    assert cache.allocated_bytes() >= cache.counted_bytes()


def test_a_budget_is_enforced_to_the_byte(huginn: LoopedLM) -> None:
    options = {"rows": 2, "capacity": 20, "loops": 5, "longest_pass": 3}
    needed = PlaneCache(huginn, ripe(3), **options).allocated_bytes()
    assert PlaneCache(huginn, ripe(3), **options, budget=needed).allocated_bytes() == needed
    with pytest.raises(BudgetError, match=f"needs {needed} bytes, found {needed - 1}"):
        PlaneCache(huginn, ripe(3), **options, budget=needed - 1)
    found = generate(huginn, [[1, 2, 3]], policy=ripe(3), loops=5, max_tokens=4)
    size = found.cache_allocated_bytes
    assert size >= found.cache_peak_bytes
    generate(huginn, [[1, 2, 3]], policy=ripe(3), loops=5, max_tokens=4, budget=size)
    with pytest.raises(BudgetError, match="fewer rows, fewer tokens"):
        generate(huginn, [[1, 2, 3]], policy=ripe(3), loops=5, max_tokens=4, budget=size - 1)


def test_a_prompt_needs_one_plane_more_than_it_keeps() -> None:
    for config in (HUGINN, RAVEN):
        u = layer_token_bytes(config, 2)
        kept = cache_bytes(config, ripe(64), 1024, 32, 2)
        assert prompt_bytes(config, ripe(64), 1024, 32, 2) == kept + config.core * 1024 * u
        whole = cache_bytes(config, full(), 1024, 32, 2)
        assert prompt_bytes(config, full(), 1024, 32, 2) == whole


def test_decoding_reports_the_bytes_of_all_rows(huginn: LoopedLM) -> None:
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9]]
    found = generate(huginn, prompts, policy=ripe(4), loops=5, max_tokens=6)
    # The last token is never fed back, so it holds no keys.
    lengths = [3 + 5, 6 + 5]
    expected = sum(cache_bytes(huginn.config, ripe(4), n, 5, 8) for n in lengths)
    assert found.cache_held_bytes == expected
    assert found.cache_peak_bytes == expected
