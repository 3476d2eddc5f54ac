"""One test per defect that was reproduced in another package; each name says whose and what."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from harness import analysis as st
from harness.analysis.resampling import BLOCK, block_counts

KEY = bytes(range(16))


@pytest.mark.parametrize("method", ["exact", "midp", "chi2", "chi2-corrected"])
def test_statsmodels_and_mlxtend_call_no_discordant_pair_significant(method: str) -> None:
    result = st.mcnemar(0, 0, method)
    assert result.p == 1.0
    assert result.statistic is None
    assert result.notes == ("no discordant pairs",)


def test_pingouin_and_hf_evaluate_stop_without_discordant_pairs() -> None:
    counts = [[3, 4], [0, 0], [0, 0], [2, 1]]
    for method in ("obuchowski", "durkalski", "yang", "eliasziw-donner", "naive"):
        result = st.clustered_mcnemar(*counts, method)
        assert isinstance(result, st.TestResult)
        assert (result.p, result.statistic) == (1.0, None)


@pytest.mark.parametrize("equal", [1, 5, 13, 400])
def test_four_packages_correct_a_tie_away_from_p_one(equal: int) -> None:
    result = st.mcnemar(equal, equal, "chi2-corrected")
    assert (result.statistic, result.p) == (0.0, 1.0)


def test_uncapped_doubling_gives_p_above_one() -> None:
    assert st.mcnemar(5, 5, "exact").p == 1.0
    assert st.mcnemar(5, 5, "midp").p == 1.0


def test_integer_tail_sums_overflow_on_large_counts() -> None:
    result = st.mcnemar(100_000, 101_000, "exact")
    assert result.p == pytest.approx(0.02586239, abs=1e-8)
    assert st.mcnemar(0, 5_000).p > 0
    assert st.mcnemar(2**40, 2**40 + 10**6).p == pytest.approx(0.50009, abs=1e-4)


@pytest.mark.parametrize("values", [[0.4], [0.0]])
def test_inspect_evalci_and_evalsig_give_one_cluster_a_zero_width_interval(
    values: list[float],
) -> None:
    rows, zeros = np.array(values * 5), np.zeros(5)
    for found in (
        st.mean_diff(["only"] * 5, zeros, rows, weights="row").interval,
        st.mean_diff(["only"] * 5, zeros, rows, weights="cluster").interval,
        st.cr2_interval(values, [1.0]),
        st.cluster_se(values, [1.0]),
        st.percentile_bootstrap(values, [1.0], key=KEY),
        st.studentised_bootstrap(values, [1.0], key=KEY),
        st.enumerated_bootstrap(values, [1.0]),
        st.bca_enumerated(values, [1.0]),
        st.sign_flip(values),
        st.cr2_test(values, [1.0]),
        st.max_t([values]),
        st.tango_effective([0], [1], [5]),
        st.paired_design_effect([0], [1], [5]),
        st.clustered_mcnemar([1], [1], [0], [1], "yang"),
    ):
        assert isinstance(found, st.NotEstimable)
        assert "one cluster" in found.reason


def test_evalsig_reaches_p_0002_with_two_clusters() -> None:
    result = st.sign_flip([0.4, 0.5])
    assert isinstance(result, st.TestResult)
    assert result.p == 0.5
    interval = st.cr2_interval([0.4, 0.5], [1, 1])
    assert isinstance(interval, st.Interval)
    assert interval.low < 0 < interval.high


def test_statsmodels_uses_the_normal_quantile_with_two_clusters() -> None:
    interval = st.cr2_interval([1.0, 3.0], [1, 1])
    assert isinstance(interval, st.Interval)
    assert (interval.low, interval.high) == pytest.approx((2 - 12.7062047, 2 + 12.7062047))
    assert interval.df == 1


def test_inspect_draws_its_bootstrap_from_the_global_generator() -> None:
    sums = np.arange(1.0, 31.0)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    first = st.percentile_bootstrap(sums, np.ones(30), key=KEY)
    np.random.seed(2)
    second = st.percentile_bootstrap(sums, np.ones(30), key=KEY)
    np.random.seed(1)
    assert first == second
    assert np.array_equal(before, np.random.get_state()[1])


@pytest.mark.parametrize("asked", [1, 255, 256, 257, 1_500, 1_999])
def test_lm_eval_drops_the_resamples_that_do_not_fill_a_chunk(asked: int) -> None:
    assert st.bootstrap_counts(KEY, 7, asked).shape == (asked, 7)
    assert np.array_equal(
        st.bootstrap_counts(KEY, 7, asked), st.bootstrap_counts(KEY, 7, 2_000)[:asked]
    )


def test_lm_eval_divides_by_zero_with_one_item() -> None:
    estimate = st.accuracy_diff(["only"], [1], [0])
    assert estimate.estimate == -1.0
    assert isinstance(estimate.interval, st.NotEstimable)


def test_scipy_arch_and_resample_disagree_on_constant_data() -> None:
    constant = np.full(10, 0.3)
    assert isinstance(st.bca_enumerated(constant, np.ones(10)), st.NotEstimable)
    assert isinstance(st.studentised_bootstrap(constant, np.ones(10), key=KEY), st.NotEstimable)
    percentile = st.percentile_bootstrap(constant, np.ones(10), key=KEY)
    assert isinstance(percentile, st.Bootstrap)
    assert percentile.interval.degenerate
    verdict = st.decide(percentile.interval, st.Region(0.2, 0.4))
    assert verdict.word == "void"
    assert "degenerate" in verdict.sentence


def test_scipy_lets_nan_through() -> None:
    for values in ([1.0, math.nan, 2.0], [1.0, math.inf, 2.0]):
        with pytest.raises(st.AnalysisError, match="entry 1"):
            st.percentile_bootstrap(values, np.ones(3), key=KEY)
        with pytest.raises(st.AnalysisError, match="entry 1"):
            st.mean_diff([1, 2, 3], values, np.ones(3), weights="row")


def test_arch_stops_when_one_resample_has_no_variance() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    found = st.studentised_bootstrap(values, np.ones(5), key=KEY)
    assert isinstance(found, st.Bootstrap)
    assert found.interval.low < 4 < found.interval.high
    exact = st.enumerated_bootstrap(values, np.ones(5), method="studentised")
    assert isinstance(exact, st.Bootstrap)
    assert exact.interval.high == pytest.approx(found.interval.high, rel=0.1)


def test_bootstrap_t_of_three_clusters_is_open_not_made_up() -> None:
    found = st.enumerated_bootstrap([1.0, 2.0, 4.0], np.ones(3), method="studentised")
    assert isinstance(found, st.Bootstrap)
    assert (found.interval.low, found.interval.high) == (-math.inf, math.inf)
    assert st.decide(found.interval, st.Region(0, None)).word == "inconclusive"


def test_abeval_takes_a_lopsided_pair_of_ranks() -> None:
    for resamples in (999, 1_000, 9_999, 10_000):
        low, high = st.percentile_ranks(resamples, 0.95) or (0, 0)
        assert low - 1 == resamples - high, "as many draws below the lower end as above the upper"
    assert st.percentile_ranks(10, 0.95) is None


def test_numpy_moves_a_rank_by_rounding_the_level() -> None:
    assert (1 - 0.95) / 2 > 0.025
    assert st.percentile_ranks(9_999, 0.95) == (250, 9_750)
    assert st.quantile(range(1, 10_001), "0.025") == 250


def test_cluster_experiments_drops_missing_pairs_and_reports_p_zero() -> None:
    pairs = st.pair_rows(
        ["t1", "t1", "t2", "t2", "t3", "t3"],
        ["A", "B"] * 3,
        [0.5, 0.7, 0.5, 0.7, 0.5, None],
    )
    assert pairs.dropped == (("t3", 0),)
    assert pairs.missing_share == pytest.approx(1 / 3)
    difference = pairs.b - pairs.a
    test = st.cr2_test(difference, np.ones(2))
    assert isinstance(test, st.NotEstimable)
    flipped = st.sign_flip(difference)
    assert isinstance(flipped, st.TestResult)
    assert flipped.p == 0.5


def test_delta_methods_treat_paired_arms_as_independent() -> None:
    task = np.linspace(1, 100, 30)
    wobble = 1 + 0.001 * np.cos(np.arange(30))
    found = st.ratio_of_sums(np.arange(30), 1.3 * task * wobble, task)
    assert isinstance(found, st.Estimate)
    assert isinstance(found.interval, st.Interval)
    assert found.interval.high - found.interval.low < 0.002, "task length cancels in pairs"


def test_wildboottest_cannot_read_text_labels() -> None:
    text = st.mean_diff(["ä", "b", "b", "ß"], [0, 0, 0, 0], [1, 2, 4, 5], weights="cluster")
    number = st.mean_diff([3, 1, 1, 2], [0, 0, 0, 0], [1, 2, 4, 5], weights="cluster")
    assert text.estimate == number.estimate == 3.0
    assert text.clusters == 3


def test_tsbootstrap_resamples_within_clusters() -> None:
    counts = st.bootstrap_counts(KEY, 12, 500)
    assert (counts.sum(axis=1) == 12).all()
    assert (counts == 0).any(axis=1).all(), "whole clusters drop out of every resample"


def test_the_mean_of_ratios_claims_a_speedup_in_both_directions() -> None:
    a, b = np.array([10.0, 1.0]), np.array([5.0, 2.0])
    assert (a / b).mean() == (b / a).mean() == 1.25
    assert st.log_ratio([0, 1], a, b).estimate == pytest.approx(1.0)
    assert not hasattr(st, "mean_of_ratios")


def test_float_comparison_turns_ties_into_significance() -> None:
    differences = [0.1, 0.2, 0.3, -0.1, 0.6, 0.7]
    result = st.sign_flip(differences)
    assert isinstance(result, st.TestResult)
    assert result.p == 6 / 64
    tenfold = st.sign_flip([round(10 * d) for d in differences])
    assert isinstance(tenfold, st.TestResult)
    assert tenfold.p == result.p


def test_naive_mcnemar_takes_twenty_pairs_of_a_task_for_twenty_tasks() -> None:
    rows = np.repeat(np.arange(22), 10)
    a, b = np.repeat([1] * 6 + [0] * 16, 10), np.repeat([0] * 6 + [1] * 16, 10)
    with pytest.raises(st.AnalysisError, match="has 10 pairs"):
        st.mcnemar_rows(rows, a, b)
    once = st.mcnemar_rows(rows[::10], a[::10], b[::10], "chi2")
    naive = st.clustered_mcnemar(
        [0] * 22, [10] * 6 + [0] * 16, [0] * 6 + [10] * 16, [0] * 22, "naive"
    )
    assert isinstance(naive, st.TestResult)
    assert naive.statistic == pytest.approx(45.45, abs=0.01)
    assert naive.notes
    assert once.statistic == pytest.approx(4.545, abs=0.001)


def test_statsmodels_and_r_disagree_on_void_members_of_a_family() -> None:
    assert st.holm([0.001, None, 0.04]) == (0.003, None, 0.08)
    assert st.benjamini_hochberg([0.001, None, 0.04]) == (0.003, None, 0.06)
    with pytest.raises(st.AnalysisError):
        st.holm([0.001, math.nan])


def test_group_by_drops_or_merges_missing_ids() -> None:
    for missing in (None, math.nan, ""):
        with pytest.raises(st.AnalysisError, match="missing"):
            st.clusters_of(["a", missing, "b"])
    with pytest.raises(st.AnalysisError, match="missing"):
        st.cluster_sums(np.ma.masked_array([1, 2], mask=[0, 1]), [1.0, 2.0])
    with pytest.raises(st.AnalysisError, match="text or all integers"):
        st.clusters_of(["1", 1])


def test_numpy_merges_labels_that_differ_in_a_trailing_nul() -> None:
    assert len(set(np.array(["a", "a\0"]))) == 1
    assert len(st.clusters_of(["a", "a\0"])) == 2


def test_blas_changes_the_last_bit_with_the_height_of_a_chunk() -> None:
    table = np.random.Generator(np.random.Philox(5)).normal(size=(97, 6)) * 1e3
    whole = st.resampled_sums(KEY, table, 2 * BLOCK)
    counts = block_counts(KEY, 0, 97)
    from harness.analysis.exact import exact_product

    for height in (1, 3, 7, 100):
        pieces = [
            exact_product(counts[start : start + height], table, 97)
            for start in range(0, BLOCK, height)
        ]
        assert np.array_equal(np.concatenate(pieces), whole[:BLOCK])


def test_a_wald_or_bootstrap_interval_would_prove_any_equivalence() -> None:
    right = [1] * 100
    estimate = st.accuracy_diff(np.arange(100), right, right)
    assert isinstance(estimate.interval, st.Interval)
    assert estimate.interval.high == pytest.approx(0.037, abs=0.001)
    assert st.decide(estimate, st.equivalence_region(0.03)).word == "inconclusive"
    assert st.decide(estimate, st.equivalence_region(0.04)).word == "held"
    flat = st.mean_diff(np.arange(100), right, right, weights="row")
    assert st.decide(flat, st.equivalence_region(0.03)).word == "void"
    assert st.decide(flat, st.non_inferiority_region(0.03)).word == "void"


def test_identical_score_vectors_are_refused_not_passed() -> None:
    same = st.log_ratio(np.arange(12), np.arange(1.0, 13.0), np.arange(1.0, 13.0))
    assert same.degenerate
    assert st.decide(same, st.Region(0.97, 1.03)).word == "void"


def test_importing_leaves_numpy_warnings_and_state_alone() -> None:
    code = (
        "import numpy, random; a = numpy.geterr(); s = random.getstate(); import harness.analysis; "
        "assert numpy.geterr() == a and random.getstate() == s"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_huge_sums_have_no_studentised_bootstrap_instead_of_an_error() -> None:
    found = st.studentised_bootstrap([1e139, 2e138, 5e138], [1.0, 1.0, 1.0], key=bytes(16))
    assert isinstance(found, st.NotEstimable)
    assert "overflow" in found.reason
