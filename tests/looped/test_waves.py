"""Diagonal decoding: where it is plain decoding, and that rows do not mix."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from harness.looped.decode import generate
from harness.looped.errors import BudgetError, LoopedError, PolicyError
from harness.looped.generation import FULL_PROMPT
from harness.looped.policies import Policy, deepest, full
from harness.looped.wave_memory import wave_bytes
from harness.looped.waves import Wavefront, wavefront
from tests.looped.models import CONFIGS, random_model

PROMPTS = [[5, 9, 17, 3, 30], [7, 2, 6, 9, 1, 1, 30, 21, 4], [12, 13]]
OPTIONS: dict[str, Any] = {"loops": 4, "max_tokens": 10, "start": "keyed", "seed": 1}
NAMES = ("huginn_0125", "raven_llama_1b", "ouro_1_4b")


def _plain(name: str, policy: Policy, **more: Any) -> tuple[tuple[int, ...], ...]:
    found = generate(
        random_model(CONFIGS[name]),
        PROMPTS,
        policy=policy,
        prefill=FULL_PROMPT,
        **{**OPTIONS, **more},
    )
    return tuple(row.tokens for row in found.rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_wave_of_one_token_is_plain_decoding(name: str) -> None:
    """Headway 1 with R inner loops, full and shared planes."""
    model = random_model(CONFIGS[name])
    for planes, policy in (("full", full()), ("shared", deepest())):
        found = wavefront(model, PROMPTS, Wavefront(planes, inner=4, longest=6), **OPTIONS)
        assert found.tokens == _plain(name, policy)
        assert found.steps == 9


@pytest.mark.parametrize("name", NAMES)
def test_restarts_with_full_planes_keep_the_tokens(name: str) -> None:
    model, plain = random_model(CONFIGS[name]), _plain(name, full())
    for inner, headway in product((1, 2), (1, 3)):
        mode = Wavefront("full", inner, headway, longest=5, on_change="restart")
        assert wavefront(model, PROMPTS, mode, **OPTIONS).tokens == plain


MODES = [
    Wavefront(planes, 1, headway, 4, on_change, exit_change)
    for planes, headway, on_change, exit_change in product(
        ("full", "shared"), (1, 2), ("continue", "restart"), (0.0, 0.3)
    )
]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_rows_of_a_batch_equal_the_rows_alone(mode: Wavefront) -> None:
    model = random_model(CONFIGS["huginn_0125"])
    together = wavefront(model, PROMPTS, mode, **OPTIONS)
    alone = [wavefront(model, [prompt], mode, **OPTIONS) for prompt in PROMPTS]
    assert together.tokens == tuple(found.tokens[0] for found in alone)
    assert together.steps == max(found.steps for found in alone)
    assert together.token_loops == sum(found.token_loops for found in alone)


def test_waves_take_fewer_steps() -> None:
    """Four loops a token, one loop a step: the diagonal begins a token in every step."""
    model = random_model(CONFIGS["huginn_0125"])
    slow = wavefront(model, PROMPTS, Wavefront(inner=1, longest=1), **OPTIONS)
    fast = wavefront(model, PROMPTS, Wavefront(inner=1, longest=4), **OPTIONS)
    assert slow.steps == 4 * 9
    assert fast.steps < slow.steps / 2


def test_early_exits_fill_the_planes_that_were_not_reached() -> None:
    model = random_model(CONFIGS["huginn_0125"])
    found = wavefront(model, PROMPTS, Wavefront(inner=1, longest=6, exit_change=10.0), **OPTIONS)
    assert [len(tokens) for tokens in found.tokens] == [10, 10, 10]
    assert found.steps == 9


def test_stop_tokens_end_a_row() -> None:
    model, plain = random_model(CONFIGS["huginn_0125"]), _plain("huginn_0125", full())
    for token in plain[0][:4]:
        mode = Wavefront(inner=2, longest=6, on_change="restart")
        found = wavefront(model, PROMPTS, mode, stop=(token,), **OPTIONS)
        cut = [row[: row.index(token) + 1] if token in row else row for row in plain]
        assert list(found.tokens) == cut


def test_bad_waves_are_refused() -> None:
    model = random_model(CONFIGS["huginn_0125"])
    with pytest.raises(PolicyError, match="inner: found 3, expected a divisor of the 4 loops"):
        wavefront(model, PROMPTS, Wavefront(inner=3), **OPTIONS)
    with pytest.raises(PolicyError, match="prompts: found an empty one"):
        wavefront(model, [[]], Wavefront(inner=4), **OPTIONS)
    with pytest.raises(LoopedError, match="expected at most 64"):
        wavefront(model, PROMPTS, Wavefront(inner=4), **{**OPTIONS, "max_tokens": 60})
    for options, message in (
        ({"planes": "half"}, "planes: found 'half'"),
        ({"on_change": "stop"}, "on_change: found 'stop'"),
        ({"headway": 0}, "found \\(4, 0, 128\\), expected at least 1 each"),
    ):
        with pytest.raises(PolicyError, match=message):
            Wavefront(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("planes", ["full", "shared"])
def test_a_waves_memory_is_as_the_formula_says_and_within_its_budget(planes: str) -> None:
    model = random_model(CONFIGS["huginn_0125"])
    mode = Wavefront(planes=planes, inner=2, longest=4)
    prompts = [[5, 9, 17], [7, 2]]
    needed = wave_bytes(model, planes, 4, 2, 3 + 5 + 4)
    found = wavefront(model, prompts, mode, loops=4, max_tokens=5, budget=needed)
    assert found.allocated_bytes == needed
    assert found.total.wall_ns >= found.prefill.wall_ns + found.decode.wall_ns > 0
    with pytest.raises(BudgetError, match=f"needs {needed} bytes, found {needed - 1}"):
        wavefront(model, prompts, mode, loops=4, max_tokens=5, budget=needed - 1)
