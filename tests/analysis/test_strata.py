"""Stratified variance: closed forms, CR2 as a special case, coverage where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from harness import analysis as st


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def known(interval: st.Interval | st.NotEstimable) -> st.Interval:
    assert isinstance(interval, st.Interval)
    return interval


@pytest.mark.parametrize("log", [False, True])
def test_one_stratum_is_cr2_to_the_last_digits(log: bool) -> None:
    top, bottom = generator(1).lognormal(1, 0.5, 15), generator(2).lognormal(1, 0.5, 15)
    one = known(st.stratified_interval(top, bottom, ["s"] * 15, log=log))
    plain = known(st.cr2_interval(top, bottom, log=log))
    assert (one.low, one.high, one.df) == pytest.approx((plain.low, plain.high, plain.df))
    assert one.method == ("cr2-stratified-log" if log else "cr2-stratified")


def test_equal_weights_give_the_textbook_variance_of_a_stratified_mean() -> None:
    strata = np.repeat([0, 1, 2], [4, 6, 10])
    values = generator(3).normal(strata * 10.0, 1 + strata)
    sizes = np.bincount(strata)
    spread = [values[strata == s].var(ddof=1) for s in range(3)]
    weight = sizes / sizes.sum()
    error = math.sqrt(float((weight**2 * spread / sizes).sum()))
    df = 1 / float((weight**2 / (sizes - 1)).sum())
    found = known(st.stratified_interval(values, np.ones(20), strata))
    half = student.ppf(0.975, df) * error
    assert found.df == pytest.approx(df)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_labels_and_order_do_not_matter() -> None:
    top, bottom = generator(4).lognormal(0, 1, 12), generator(5).lognormal(0, 1, 12)
    strata = ["a", "b", "c"] * 4
    order = generator(6).permutation(12)
    one = known(st.stratified_interval(top, bottom, strata))
    two = known(st.stratified_interval(top[order], bottom[order], [f"z{strata[i]}" for i in order]))
    assert (one.low, one.high) == pytest.approx((two.low, two.high), rel=1e-13)


@pytest.mark.parametrize(
    ("strata", "denominator", "reason"),
    [
        (["a", "a", "a", "b"], [1, 1, 1, 1], "stratum 'b' has one cluster"),
        (["a", "a", "b", "b"], [1, 1, 1, 0], "holds the whole denominator of stratum 'b'"),
        (["a", "a", "b", "b"], [0, 0, 0, 0], "denominator is 0"),
    ],
)
def test_a_stratum_that_cannot_vary_is_not_estimable(
    strata: list[str], denominator: list[int], reason: str
) -> None:
    found = st.stratified_interval([1.0, 2.0, 3.0, 4.0], denominator, strata)
    assert isinstance(found, st.NotEstimable)
    assert reason in found.reason


def test_bad_strata_are_an_error() -> None:
    with pytest.raises(st.AnalysisError, match="missing"):
        st.stratified_interval([1.0, 2.0], [1.0, 1.0], ["a", None])
    with pytest.raises(st.AnalysisError, match="lengths differ"):
        st.stratified_interval([1.0, 2.0], [1.0, 1.0], ["a", "a", "b"])


@pytest.mark.parametrize(("each", "unequal"), [(5, False), (5, True), (12, True)])
def test_it_covers_where_plain_cr2_is_far_too_wide(each: int, unequal: bool) -> None:
    """Four templates with means 0, 1, 2, 3 and spread 0.5 within: 95 % of 1,500 data sets."""
    draw, sets = generator(7 + each), 1_500
    strata = np.repeat(np.arange(4), each)
    inside = covered_plain = 0
    widths = []
    for _ in range(sets):
        sizes = draw.integers(1, 6, len(strata)) if unequal else np.full(len(strata), 3)
        means = strata + 0.5 * draw.standard_normal(len(strata))
        found = known(st.stratified_interval(sizes * means, sizes, strata))
        plain = known(st.cr2_interval(sizes * means, sizes))
        inside += found.low <= 1.5 <= found.high
        covered_plain += plain.low <= 1.5 <= plain.high
        widths.append((found.high - found.low) / (plain.high - plain.low))
    assert 0.93 <= inside / sets <= 0.97
    if not unequal:
        assert covered_plain / sets > 0.99
    assert float(np.median(widths)) < (0.9 if unequal else 0.5)


def test_estimands_take_strata() -> None:
    means = generator(9).normal(0.3, 0.05, 10)
    strata = [0, 1] * 5
    plain, inside = (st.log_ratio_of_means(means, 10, strata=s) for s in (None, strata))
    assert plain.estimate == inside.estimate
    assert known(inside.interval).method == "cr2-stratified-log"
    ratio = st.ratio_of_cluster_sums(means + 1, means + 2, 10, strata=strata)
    assert isinstance(ratio, st.Estimate)
    few = st.accuracy_diff_of_counts([1] + [0] * 9, [0] * 10, [1] * 10, strata=strata)
    assert known(few.interval).method.startswith("tango")


def test_sums_in_pieces_have_the_bits_of_all_rows_at_once() -> None:
    values = generator(11).lognormal(0, 4, (5_000, 3))
    codes = generator(12).integers(0, 31, 5_000)
    whole = st.cluster_sums(codes, values)
    for piece in (1, 7, 999):
        totals = st.ExactSums(31, np.abs(values).max(axis=0), int(np.bincount(codes).max()))
        for start in range(0, 5_000, piece):
            totals.add(codes[start : start + piece], values[start : start + piece])
        assert np.array_equal(totals.sums, whole.sums)
