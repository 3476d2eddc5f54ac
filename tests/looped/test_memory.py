"""Cache sizes: the paper's numbers, and the bytes that the caches hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.looped.config import LoopedConfig
from harness.looped.decode import generate
from harness.looped.errors import PolicyError
from harness.looped.memory import cache_bytes, layer_token_bytes
from harness.looped.model import LoopedLM
from harness.looped.policies import deepest, first_loops, full, ripe
from harness.looped.recipes import tiny_config

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


def test_policies_without_a_cache_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"first_loops\(2\), expected full, deepest or ripe"):
        cache_bytes(BASE, first_loops(2), 1, 32, 2)


def test_decoding_reports_the_bytes_of_all_rows(huginn: LoopedLM) -> None:
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9]]
    found = generate(huginn, prompts, policy=ripe(4), loops=5, max_tokens=6)
    # The last token is never fed back, so it holds no keys.
    lengths = [3 + 5, 6 + 5]
    expected = sum(cache_bytes(huginn.config, ripe(4), n, 5, 8) for n in lengths)
    assert found.cache_held_bytes == expected
    assert found.cache_peak_bytes == expected
