"""What fits: the published counts, with and without what a row needs beside its cache."""

from __future__ import annotations

import pytest

from harness.looped.costs import Round, pass_cost, tokens_per_round
from harness.looped.errors import LoopedError, PolicyError
from harness.looped.memory import cache_bytes
from harness.looped.planner import Budget, block_scratch, plan, weight_bytes
from harness.looped.policies import deepest, full, ripe
from harness.looped.published import PUBLISHED

HUGINN, RAVEN = PUBLISHED["huginn_0125"], PUBLISHED["raven_llama_1b"]
GB = 10**9


def _rows(row_bytes: int) -> list[int]:
    budget = Budget(95 * GB, 7_130_000_000, row_bytes)
    return [fit.rows for fit in plan(HUGINN, budget, [full(), deepest()], tokens=808)]


def test_the_published_counts_of_sequences() -> None:
    assert _rows(154_000_000) == [36, 302]
    assert _rows(0) == [39, 643]


def test_weights_and_scratch_of_the_published_shapes() -> None:
    assert weight_bytes(HUGINN, 2) == 7_129_953_600
    assert weight_bytes(RAVEN, 2) == 2 * 1_385_228_288
    assert block_scratch(HUGINN, 4, 32, 2) == 13_939_200


def test_the_longest_row_fits_and_one_more_token_does_not() -> None:
    budget = Budget(2 * GB, GB)
    for policy in (full(), deepest(), ripe(64)):
        (fit,) = plan(HUGINN, budget, [policy], tokens=100)
        assert cache_bytes(HUGINN, policy, fit.longest, 32, 2) <= budget.free
        assert (
            fit.longest == HUGINN.block_size
            or cache_bytes(HUGINN, policy, fit.longest + 1, 32, 2) > budget.free
        )


def test_impossible_budgets_are_refused() -> None:
    with pytest.raises(PolicyError, match="expected at least the 2000 of the weights"):
        plan(HUGINN, Budget(1000, 2000), [full()], tokens=10)
    with pytest.raises(PolicyError, match="tokens: found 0"):
        plan(HUGINN, Budget(3000, 2000), [full()], tokens=0)


def test_pass_costs_by_parameters() -> None:
    assert pass_cost(HUGINN).outer == pytest.approx(1.177, abs=5e-4)
    assert pass_cost(RAVEN).outer == pytest.approx(2.007, abs=5e-4)


def test_tokens_per_round() -> None:
    for rate, tokens in ((0.7932, 3.317), (0.9203, 4.264), (0.81, 3.428), (0.93, 4.347)):
        assert tokens_per_round([rate] * 4) == pytest.approx(tokens, abs=6e-4)
    assert tokens_per_round([0.5, 0.5]) == 1.75
    with pytest.raises(LoopedError, match=r"expected rates in 0\.\.1"):
        tokens_per_round([1.5])


def test_speed_up_of_the_published_setting() -> None:
    setting, cost = Round(32, 4, 4, 1.07), pass_cost(HUGINN)
    assert setting.speed_up(cost, [0.81] * 4) == pytest.approx(2.02, abs=5e-3)
    assert setting.speed_up(cost, [0.93] * 4) == pytest.approx(2.57, abs=5e-3)


def test_reuse_gains_only_where_wide_passes_cost_more() -> None:
    cost = pass_cost(HUGINN)
    for widening in (1.0, 1.07, 2.0, 5.0):
        setting = Round(32, 4, 4, widening)
        gain = (widening - 1) * (cost.prelude + 4)
        assert setting.reuse_gain(cost) == pytest.approx(gain)
    assert Round(32, 4, 4, 1.0).reuse_gain(cost) == pytest.approx(0)
    # Full-cache drafts at 0.81 that are reused, against deepest-plane drafts at 0.93 that aren't:
    waiting, computing = Round(32, 4, 4, 1.07), Round(32, 4, 4, 5.0)
    for setting in (waiting, computing):
        reused = setting.speed_up(cost, [0.81] * 4, reuse=True)
        assert reused < setting.speed_up(cost, [0.93] * 4)
