"""Replay: three semantics, each what it says."""

from __future__ import annotations

import pytest
import torch

from harness.looped.errors import PolicyError
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, deepest, first_loops, full, last_loops, ripe
from harness.looped.reference import reference_logits
from harness.looped.replaying import policy_logits, replay

R = 4
IDS = torch.tensor(
    [[5, 99, 17, 3, 64, 120, 8, 8, 41, 77, 2], [1, 2, 3, 99, 98, 97, 50, 60, 70, 0, 4]]
)
POLICIES = [full(), deepest(), ripe(2), ripe(30), first_loops(1), first_loops(3), last_loops(2)]


def _logits(model: LoopedLM, policy: Policy, mode: str, iterations: int = 1) -> torch.Tensor:
    return policy_logits(
        model, IDS, policy=policy, mode=mode, loops=R, iterations=iterations, start="keyed", seed=2
    )


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.label)
def test_sequential_replay_equals_the_reference(any_model: LoopedLM, policy: Policy) -> None:
    found = _logits(any_model, policy, "sequential")
    for row in range(2):
        expected = reference_logits(
            any_model, IDS[row].tolist(), policy, passes=[1] * 11, loops=R, start="keyed", seed=2
        )
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("policy", [deepest(), ripe(1), ripe(2), last_loops(2)])
def test_iterations_grow_the_exact_part(huginn: LoopedLM, policy: Policy) -> None:
    exact = _logits(huginn, policy, "sequential")
    block = (policy.near_window or 0) + 1
    for iterations in range(1, 11):
        error = (_logits(huginn, policy, "iterated", iterations) - exact).abs().amax((0, 2))
        known = min((iterations + 1) * block, 11)
        assert error[:known].max() < 1e-10
        if policy.kind == "ripe" and known < 11:
            assert error[known] > 1e-10


def test_one_pass_is_the_first_iteration(huginn: LoopedLM) -> None:
    one = _logits(huginn, ripe(2), "one_pass")
    assert torch.equal(one, _logits(huginn, ripe(2), "iterated", 1))


def test_divergence_is_zero_for_full_and_positive_else(huginn: LoopedLM) -> None:
    same = replay(huginn, IDS, policy=full(), loops=R)
    assert same.kl.shape == (2, 11)
    assert same.kl.abs().max() < 1e-12
    assert torch.equal(same.reference, same.chosen)
    other = replay(huginn, IDS, policy=deepest(), loops=R)
    assert other.kl.min() > -1e-12
    assert other.kl[:, 0].max() < 1e-12 < other.kl[:, 1:].min()


def test_unknown_modes_are_refused(huginn: LoopedLM) -> None:
    with pytest.raises(PolicyError, match="mode: found 'fast', expected sequential"):
        replay(huginn, IDS, policy=full(), mode="fast")
