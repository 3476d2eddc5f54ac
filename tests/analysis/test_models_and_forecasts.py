"""Model checks over a frozen grid, tails, calibration, planning, missing values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness import analysis as st

KEY = bytes(range(16))


def grid(bias: float = 1.0, fit_error: float = 0.002, clusters: int = 12) -> list[st.Condition]:
    generator = np.random.Generator(np.random.Philox(21))
    conditions = []
    for batch in (1, 2, 4, 8, 16, 32):
        truth = batch / (0.02 + 0.004 * batch)
        measured = truth * np.exp(0.005 * generator.normal(size=clusters))
        conditions.append(
            st.Condition(f"batch {batch}", measured, bias * truth, fit_error, 40.0 * batch)
        )
    return conditions


def check(conditions: list[st.Condition], tolerance: float = 0.03) -> st.ModelCheck:
    found = st.model_check(
        conditions, tolerance=tolerance, naive="proportional", fitted_on="odd batches"
    )
    assert isinstance(found, st.ModelCheck)
    return found


def test_a_right_model_is_held_and_a_wrong_one_fails() -> None:
    assert check(grid()).word == "held"
    wrong = check(grid(bias=1.08))
    assert wrong.word == "failed"
    assert "batch" in wrong.reasons[0]
    assert check(grid(bias=1.029)).word == "inconclusive"


def test_fit_error_counts() -> None:
    sure, unsure = check(grid(fit_error=0.0)), check(grid(fit_error=0.02))
    assert sure.word == "held"
    assert unsure.word == "inconclusive"
    widths = [one.conditions[0].ratio.high - one.conditions[0].ratio.low for one in (sure, unsure)]
    assert widths[1] > 3 * widths[0]


def test_one_bad_condition_is_enough() -> None:
    conditions = grid()
    conditions[3] = replace(conditions[3], predicted=conditions[3].predicted * 1.2)
    found = check(conditions)
    assert (found.word, found.worst) == ("failed", "batch 8")


def test_a_model_no_better_than_the_naive_one_fails() -> None:
    same = [replace(one, naive=one.predicted * 1.0001) for one in grid(bias=1.005)]
    closer = [replace(one, naive=one.predicted / 1.02) for one in grid(bias=1.02)]
    assert check(same).word != "failed"
    found = check(closer)
    assert found.word == "failed"
    assert found.reasons == ("not closer than proportional",)


def test_model_intervals_hold_together() -> None:
    generator = np.random.Generator(np.random.Philox(22))
    covered = 0
    for _ in range(300):
        fitted = 0.004 * generator.normal()
        conditions = [
            st.Condition(
                str(index),
                np.exp(0.01 * generator.normal(size=8)),
                math.exp(fitted),
                0.004,
                2.0,
            )
            for index in range(5)
        ]
        found = check(conditions)
        covered += all(one.ratio.low <= 1 <= one.ratio.high for one in found.conditions)
    assert 0.93 <= covered / 300 <= 1.0


def test_a_tail_needs_twenty_texts() -> None:
    text = np.repeat(np.arange(40), 50)
    values = np.zeros(2_000)
    values[::50] = 3.0
    values[1::100] = 3.0
    over = st.over_threshold(values, 2.5)
    found = st.tail_share(text, over)
    assert found.estimate == 60 / 2_000
    assert isinstance(found.interval, st.Interval)
    assert 0 < found.interval.low < found.estimate < found.interval.high
    few = st.tail_share(text, over & (text < 19))
    assert few.interval == st.NotEstimable("19 texts have a tail, needs 20")
    assert few.estimate > 0
    assert st.decide(few, st.Region(None, 0.05)).word == "void"


def test_a_tail_ratio_needs_twenty_texts_in_each_arm() -> None:
    text = np.repeat(np.arange(30), 20)
    generator = np.random.Generator(np.random.Philox(3))
    first, second = generator.random((2, 600)) < [[0.3], [0.1]]
    found = st.tail_ratio(text, first, second)
    assert isinstance(found, st.Estimate)
    assert isinstance(found.interval, st.Interval)
    assert found.interval.low > 1.5
    rare = st.tail_ratio(text, first, second & (text < 10))
    assert isinstance(rare, st.Estimate)
    assert isinstance(rare.interval, st.NotEstimable)
    assert isinstance(st.tail_ratio(text, first, np.zeros(600)), st.NotEstimable)


def test_tail_positions_of_a_text_are_not_independent() -> None:
    """All positions of a tail text are in the tail: 400 positions tell as much as 40 texts."""
    text = np.repeat(np.arange(100), 10)
    clustered = st.tail_share(text, np.repeat(np.arange(100) < 40, 10))
    naive = st.wilson_interval(400, 1_000)
    assert isinstance(clustered.interval, st.Interval)
    assert isinstance(naive, st.Interval)
    assert clustered.interval.high - clustered.interval.low > 2.5 * (naive.high - naive.low)


def test_brier_scores_what_was_decided() -> None:
    found = st.brier([0.9, 0.8, 0.6, 0.99], ["held", "failed", "inconclusive", "void"])
    assert found.brier == pytest.approx((0.01 + 0.64 + 0.36) / 3)
    assert found.reference == pytest.approx(2 / 9)
    assert dict(found.tally) == {"held": 1, "failed": 1, "inconclusive": 1, "void": 1}
    assert sum(one.forecasts for one in found.bins) == 3
    void = st.brier([0.5], ["void"])
    assert isinstance(void.brier, st.NotEstimable)
    with pytest.raises(st.AnalysisError):
        st.brier([1.5], ["held"])


def test_t_power_agrees_with_simulation_and_inverts() -> None:
    generator = np.random.Generator(np.random.Philox(12))
    effect = st.detectable_effect(12, 0.1, power="0.8")
    assert isinstance(effect, float)
    assert st.mean_power(12, effect, 0.1) == pytest.approx(0.8, abs=1e-9)
    assert st.mean_power(12, 0.0, 0.1) == pytest.approx(0.05, abs=1e-9)
    rejected = 0
    for _ in range(1_000):
        test = st.cr2_test(effect + 0.1 * generator.normal(size=12), np.ones(12))
        assert isinstance(test, st.TestResult)
        rejected += test.p <= 0.05
    assert rejected / 1_000 == pytest.approx(0.8, abs=0.04)


def test_planning_numbers_are_monotone() -> None:
    margins = [st.detectable_margin(0.04, n) for n in (100, 1_000, 10_000)]
    assert margins == sorted(margins, reverse=True)
    assert st.non_inferiority_sample_size(0.04, margins[1]) == pytest.approx(1_000, abs=1)
    more = st.question_sample_size(1 / 9, 0.03, within_a=0.05, within_b=0.05)
    assert more > st.question_sample_size(1 / 9, 0.03)


def test_mcnemar_power_agrees_with_simulation() -> None:
    generator = np.random.Generator(np.random.Philox(13))
    cells = generator.multinomial(80, [0.2, 0.05, 0.75], 2_000)
    rejected = np.mean([st.mcnemar(b, c).p <= 0.05 for b, c, _ in cells])
    assert st.mcnemar_power(80, 0.2, 0.05) == pytest.approx(rejected, abs=0.035)
    assert st.mcnemar_power(80, 0.0, 0.0) == 0.0


def test_missing_pairs_are_counted_and_bounded() -> None:
    rows = [("a", "A", 1), ("a", "B", None), ("b", "A", 0), ("b", "B", 1), ("c", "B", 0)]
    pairs = st.pair_rows([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    assert pairs.tasks == ("b",)
    assert [task for task, _ in pairs.dropped] == ["a", "c"]
    assert st.missing_bounds(pairs) == st.MissingBounds((1 - 1 - 1) / 3, (1 + 0 + 0) / 3)
    with pytest.raises(st.AnalysisError, match="neither"):
        st.pair_rows(["a"], ["C"], [1])
    with pytest.raises(st.AnalysisError, match="infinite"):
        st.pair_rows(["a"], ["A"], [math.inf])


def test_sign_flip_counts_large_samples_exactly() -> None:
    generator = np.random.Generator(np.random.Philox(14))
    differences = generator.integers(-3, 5, 200)
    exact = st.sign_flip(differences)
    assert isinstance(exact, st.TestResult)
    assert exact.method == "sign-flip-exact"
    drawn = st.sign_flip(differences + 1e-9 * np.arange(200), key=KEY)
    assert isinstance(drawn, st.TestResult)
    assert drawn.method == "sign-flip-monte-carlo"
    assert drawn.p == pytest.approx(exact.p, abs=0.01)
    ones = st.sign_flip([1] * 40 + [-1] * 21)
    assert isinstance(ones, st.TestResult)
    assert ones.p == pytest.approx(st.mcnemar(21, 40).p, rel=1e-12)


def test_convolution_equals_enumeration() -> None:
    from harness.analysis.sign_flip import _convolved, _enumerated

    generator = np.random.Generator(np.random.Philox(15))
    for _ in range(50):
        values = generator.integers(1, 9, 12) * generator.choice([-1.0, 1.0], 12)
        for two_sided in (True, False):
            assert _convolved(values, two_sided) == pytest.approx(_enumerated(values, two_sided))


def test_a_speedup_of_two_reads_two() -> None:
    estimate = st.log_ratio(["x", "x", "y"], [4, 8, 2], [2, 4, 1])
    assert estimate.estimate == pytest.approx(2)
    assert estimate.degenerate
    assert estimate.no_effect == 1
    assert estimate.notes[0].startswith("few clusters (2)")
    with pytest.raises(st.AnalysisError, match="logarithm"):
        st.log_ratio([1, 2], [1, 0], [1, 1])


def test_accuracy_follows_its_frozen_rule() -> None:
    tasks = np.arange(40)
    a = np.ones(40, dtype=int)
    few, many = a.copy(), a.copy()
    few[:9], many[:10] = 0, 0
    below, above = st.accuracy_diff(tasks, a, few), st.accuracy_diff(tasks, a, many)
    assert below.interval.method == "tango-effective"  # type: ignore[union-attr]
    assert above.interval.method == "cr2"  # type: ignore[union-attr]
    assert below.estimand == above.estimand == "accuracy_diff"
    plain = st.tango_interval(9, 0, 40)
    assert isinstance(plain, st.Interval)
    assert below.interval.low == pytest.approx(plain.low, abs=0.02)  # type: ignore[union-attr]


def test_bca_is_there_to_compare_and_says_what_it_used() -> None:
    found = st.bca_enumerated([12, 30, 7, 22], [10, 24, 9, 20], ties="strict", centre="estimate")
    assert isinstance(found, st.BcaInterval)
    assert found.interval.method == "bca-enumerated"
    assert isinstance(st.bca_enumerated([0, 0, 1], [1, 0, 0]), st.NotEstimable)


def test_tango_at_no_difference_is_the_uncorrected_mcnemar() -> None:
    for b, c in ((3, 9), (0, 5), (12, 30)):
        score = st.tango_test(b, c, 60)
        assert isinstance(score, st.TestResult)
        assert score.p == pytest.approx(st.mcnemar(b, c, "chi2").p)
    none = st.tango_test(0, 0, 60)
    assert isinstance(none, st.TestResult)
    assert (none.p, none.statistic) == (1.0, None)
    with pytest.raises(st.AnalysisError, match="outside"):
        st.tango_test(0, 0, 60, null=1.0)


def test_crossed_seeds_are_not_independent_of_each_other() -> None:
    generator = np.random.Generator(np.random.Philox(30))
    text, seed = (x.ravel() for x in np.meshgrid(np.arange(30), np.arange(6)))
    covered = naive = 0
    for _ in range(400):
        value = 0.3 * generator.normal(size=30)[text] + 0.3 * generator.normal(size=6)[seed]
        value = value + 0.1 * generator.normal(size=180)
        crossed = st.crossed_mean(text, seed, value).interval
        by_text = st.mean_diff(text, np.zeros(180), value, weights="row").interval
        assert isinstance(crossed, st.Interval)
        assert isinstance(by_text, st.Interval)
        covered += crossed.low <= 0 <= crossed.high
        naive += by_text.low <= 0 <= by_text.high
    assert covered / 400 >= 0.92
    assert naive / 400 < 0.75
    one = st.crossed_mean(text, np.zeros(180, dtype=int), value)
    assert isinstance(one.interval, st.NotEstimable)
    assert st.crossed_mean(text, seed, np.full(180, 0.1)).degenerate
