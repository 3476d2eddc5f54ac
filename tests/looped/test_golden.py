"""Logits equal those of the models' original public code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from harness.looped.cache import PlaneCache
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, compress, deepest, full
from harness.looped.weights import load

GOLDEN = Path(__file__).parent / "golden"
LOOPS = 8


@pytest.fixture(scope="module", params=["huginn_random", "raven_llama_random"])
def pair(request: pytest.FixtureRequest) -> tuple[LoopedLM, dict[str, Tensor]]:
    folder = GOLDEN / request.param
    return load(folder), load_file(folder / "golden.safetensors")


def _check(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("loops", [1, 4, 8])
def test_one_pass_from_zero(pair: tuple[LoopedLM, dict[str, Tensor]], loops: int) -> None:
    model, golden = pair
    _check(model(golden["input_ids"], loops=loops), golden[f"logits_zero_state_r{loops}"])


def test_one_pass_from_a_given_state(pair: tuple[LoopedLM, dict[str, Tensor]]) -> None:
    model, golden = pair
    found = model(golden["input_ids"], loops=LOOPS, start=golden["state_given"])
    _check(found, golden["logits_given_state_r8"])


def _stepwise(model: LoopedLM, ids: Tensor, policy: Policy, prompt: int = 0) -> Tensor:
    rows, length = ids.shape
    cache = PlaneCache(model, policy, rows=rows, capacity=length, loops=LOOPS, longest_pass=1)
    parts = []
    if prompt:
        positions, memory = cache.open_prompt([prompt] * rows)
        state = model.start("zero", 0, positions)
        parts.append(model.run(ids[:, :prompt], positions, LOOPS, state, memory))
        cache.commit([prompt] * rows)
    for i in range(prompt, length):
        parts.append(model(ids[:, i : i + 1], loops=LOOPS, cache=cache))
    return torch.cat(parts, 1)


def test_full_cache_token_by_token(pair: tuple[LoopedLM, dict[str, Tensor]]) -> None:
    model, golden = pair
    _check(_stepwise(model, golden["input_ids"], full()), golden["logits_full_token_by_token"])


@pytest.mark.parametrize("policy", [deepest(), compress(4)], ids=lambda p: p.label)
def test_deepest_plane_token_by_token(policy: Policy) -> None:
    model, golden = load(GOLDEN / "huginn_random"), _golden()
    found = _stepwise(model, golden["input_ids"], policy)
    _check(found, golden["logits_deepest_token_by_token"])


@pytest.mark.parametrize("policy", [deepest(), compress(4)], ids=lambda p: p.label)
def test_deepest_plane_after_a_full_prompt(policy: Policy) -> None:
    model, golden = load(GOLDEN / "huginn_random"), _golden()
    found = _stepwise(model, golden["input_ids"], policy, prompt=8)
    _check(found, golden["logits_deepest_prompt8_then_tokens"])


def _golden() -> dict[str, Tensor]:
    return load_file(GOLDEN / "huginn_random" / "golden.safetensors")
