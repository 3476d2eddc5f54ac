"""The fast caches mean what the slow reference says, whatever the passes and rows are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.looped.cache import PlaneCache
from harness.looped.errors import PolicyError
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, deepest, first_loops, full, last_loops, per_head, ripe
from harness.looped.reference import reference_logits

R = 4
IDS = [5, 99, 17, 3, 64, 120, 8, 8, 41, 77, 2, 63, 9]


def _passes(model: LoopedLM, policy: Policy, lengths: list[int], prompt: int = 0) -> Tensor:
    ids = torch.tensor([IDS])
    cache = PlaneCache(model, policy, rows=1, capacity=len(IDS), loops=R, longest_pass=max(lengths))
    parts, begin = [], 0
    if prompt:
        positions, memory = cache.open_prompt([prompt])
        state = model.start("keyed", 3, positions)
        parts.append(model.run(ids[:, :prompt], positions, R, state, memory))
        cache.commit([prompt])
        begin = prompt
    for length in lengths:
        part = ids[:, begin : begin + length]
        parts.append(model(part, loops=R, start="keyed", seed=3, cache=cache))
        begin += length
    assert cache.counted_bytes() == cache.formula_bytes()
    return torch.cat(parts, 1)[0]


def _reference(
    model: LoopedLM,
    policy: Policy,
    passes: list[int] | None = None,
    prompt: int = 0,
    loops: int = R,
) -> Tensor:
    return reference_logits(
        model,
        IDS,
        policy,
        passes=passes or [1] * len(IDS),
        loops=loops,
        prompt=prompt,
        start="keyed",
        seed=3,
    )


def _same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("window", [0, 1, 3, 5, 40])
def test_ripe_equals_the_reference_for_any_allowed_passes(any_model: LoopedLM, window: int) -> None:
    expected = _reference(any_model, ripe(window))
    longest = window + 1
    partitions = [
        [1] * 13,
        [min(longest, 3)] * 4 + [13 - 4 * min(longest, 3)] if longest > 2 else [1] * 13,
    ]
    if longest >= 4:
        partitions.append([4, 1, 3, 2, 3])
    for lengths in partitions:
        _same(_passes(any_model, ripe(window), [n for n in lengths if n]), expected)


def test_full_equals_the_reference_and_one_pass(any_model: LoopedLM) -> None:
    expected = _reference(any_model, full())
    for lengths in ([13], [1] * 13, [5, 8], [2, 1, 10]):
        _same(_passes(any_model, full(), lengths), expected)
    _same(any_model(torch.tensor([IDS]), loops=R, start="keyed", seed=3)[0], expected)


@pytest.mark.parametrize("window", [0, 2, 5])
def test_full_prompt_equals_the_reference(any_model: LoopedLM, window: int) -> None:
    passes = [6] + [1] * 7
    expected = _reference(any_model, ripe(window), passes, prompt=6)
    _same(_passes(any_model, ripe(window), [1] * 7, prompt=6), expected)
    whole = any_model(torch.tensor([IDS]), loops=R, start="keyed", seed=3)[0]
    _same(expected[:6], whole[:6])
    if window:
        _same(_passes(any_model, ripe(window), [2, 1, 2, 2], prompt=6), expected)


def test_one_loop_makes_all_policies_equal(huginn: LoopedLM) -> None:
    expected = _reference(huginn, full(), loops=1)
    for policy in (deepest(), ripe(3), first_loops(1), last_loops(1)):
        _same(_reference(huginn, policy, loops=1), expected)


def test_a_window_over_the_whole_text_equals_full(huginn: LoopedLM) -> None:
    _same(_reference(huginn, ripe(len(IDS) - 1)), _reference(huginn, full()))


def test_policies_differ_where_they_should(huginn: LoopedLM) -> None:
    expected = _reference(huginn, full())
    for policy in (deepest(), ripe(3), first_loops(2), last_loops(2)):
        assert (_reference(huginn, policy) - expected).abs().max() > 1e-3


def test_too_long_passes_are_refused(huginn: LoopedLM) -> None:
    with pytest.raises(PolicyError, match="does not exist yet"):
        _reference(huginn, ripe(2), [4] + [1] * 9)
    cache = PlaneCache(huginn, ripe(2), rows=1, capacity=20, loops=R, longest_pass=8)
    with pytest.raises(PolicyError, match="found 4 tokens, expected at most 3"):
        cache.open(4, R)
    cache.commit([1])
    with pytest.raises(PolicyError, match="full_prompt: found a cache in use"):
        cache.open_prompt([5])


def test_caches_refuse_what_they_cannot_hold(huginn: LoopedLM) -> None:
    with pytest.raises(PolicyError, match="found 1 windows, expected one for each of the 4 KV"):
        PlaneCache(huginn, per_head((2,)), rows=1, capacity=4, loops=R, longest_pass=1)
    cache = PlaneCache(huginn, full(), rows=1, capacity=4, loops=R, longest_pass=1)
    with pytest.raises(PolicyError, match="loops: found 3, expected the cache's 4"):
        cache.open(1, 3)
    with pytest.raises(PolicyError, match="found 5 tokens in a row, expected at most its capacity"):
        cache.open(5, R)
