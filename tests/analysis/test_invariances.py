"""Invariances and dualities that no data may break, as properties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from harness import analysis as st

KEY = bytes(range(16))
FEW = settings(max_examples=40, deadline=None)
values = some.floats(0.05, 50, allow_nan=False)


@some.composite
def tables(draw: Any, whole: bool = False) -> tuple[list[str], np.ndarray, np.ndarray]:
    """2–12 clusters of 1–4 rows: labels, values A, values B."""
    sizes = draw(some.lists(some.integers(1, 4), min_size=2, max_size=12))
    labels = [f"task {index}" for index, size in enumerate(sizes) for _ in range(size)]
    entry = some.integers(1, 10**9) if whole else values
    arms = [
        np.array(draw(some.lists(entry, min_size=len(labels), max_size=len(labels))))
        for _ in range(2)
    ]
    return labels, arms[0], arms[1]


def ends(result: Any) -> tuple[float, float]:
    interval = getattr(result, "interval", result)
    assert isinstance(interval, st.Interval)
    return interval.low, interval.high


@FEW
@given(tables())
def test_swapping_arms_negates_differences_and_inverts_ratios(table: Any) -> None:
    labels, a, b = table
    for weights in ("cluster", "row"):
        there = st.mean_diff(labels, a, b, weights=weights)
        back = st.mean_diff(labels, b, a, weights=weights)
        assert there.estimate == -back.estimate
        assert ends(there) == tuple(-end for end in reversed(ends(back)))
    there, back = st.log_ratio(labels, a, b), st.log_ratio(labels, b, a)
    assert there.estimate * back.estimate == pytest.approx(1)
    low, high = ends(back)
    assert ends(there) == pytest.approx((1 / high, 1 / low))
    sums, mirrored = st.ratio_of_sums(labels, a, b), st.ratio_of_sums(labels, b, a)
    assert isinstance(sums, st.Estimate)
    assert isinstance(mirrored, st.Estimate)
    assert sums.estimate * mirrored.estimate == pytest.approx(1)


@FEW
@given(some.lists(some.integers(-4, 4), min_size=2, max_size=14))
def test_swapping_arms_leaves_two_sided_p_alone(differences: list[int]) -> None:
    there = st.sign_flip(differences)
    back = st.sign_flip([-d for d in differences])
    assert isinstance(there, st.TestResult)
    assert isinstance(back, st.TestResult)
    assert there.p == back.p
    less = st.sign_flip(differences, "less")
    greater = st.sign_flip([-d for d in differences], "greater")
    assert less.p == greater.p  # type: ignore[union-attr]


@FEW
@given(some.integers(0, 60), some.integers(0, 60))
def test_swapping_arms_swaps_the_sides_of_mcnemar(b: int, c: int) -> None:
    for method in ("exact", "midp", "chi2", "chi2-corrected"):
        assert st.mcnemar(b, c, method).p == st.mcnemar(c, b, method).p
    for method in ("exact", "midp"):
        assert st.mcnemar(b, c, method, "greater").p == st.mcnemar(c, b, method, "less").p
    assert st.mcnemar(b, c, "midp").p <= st.mcnemar(b, c, "exact").p


@FEW
@given(tables(), some.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(table: Any, random: Any) -> None:
    labels, a, b = table
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = [labels[i] for i in order]
    for function in (
        lambda c, x, y: st.mean_diff(c, x, y, weights="row"),
        lambda c, x, y: st.mean_diff(c, x, y, weights="cluster"),
        st.log_ratio,
        st.ratio_of_sums,
        lambda c, x, y: st.quantile_ratio(c, x, y, "0.5", key=KEY, resamples=299),
    ):
        assert function(labels, a, b) == function(shuffled, a[order], b[order])


@FEW
@given(tables())
def test_renaming_clusters_in_order_changes_nothing(table: Any) -> None:
    labels, a, b = table
    distinct = sorted(set(labels))
    renamed = [1000 + 7 * distinct.index(label) for label in labels]
    assert st.log_ratio(labels, a, b) == st.log_ratio(renamed, a, b)
    sums = [st.cluster_sums(one, a).sums for one in (labels, renamed)]
    draws = [
        st.percentile_bootstrap(one, np.ones(len(one)), key=KEY, resamples=299) for one in sums
    ]
    assert draws[0] == draws[1]


@FEW
@given(tables(whole=True), some.integers(2, 5))
def test_repeating_every_row_inside_its_cluster_changes_no_cluster_result(
    table: Any, times: int
) -> None:
    labels, a, b = table
    many = [label for label in labels for _ in range(times)]
    left, right = np.repeat(a, times), np.repeat(b, times)
    for function in (
        lambda c, x, y: st.mean_diff(c, x, y, weights="row"),
        lambda c, x, y: st.mean_diff(c, x, y, weights="cluster"),
        st.log_ratio,
        st.ratio_of_sums,
    ):
        once, repeated = function(labels, a, b), function(many, left, right)
        assert repeated.estimate == pytest.approx(once.estimate, rel=1e-9)
        if isinstance(once.interval, st.Interval) and not once.degenerate:
            assert ends(repeated) == pytest.approx(ends(once), rel=1e-7)
        assert repeated.clusters == once.clusters


@FEW
@given(
    some.lists(
        some.tuples(*[some.integers(0, 4)] * 4).filter(lambda n: sum(n) > 0),
        min_size=2,
        max_size=10,
    ),
    some.integers(2, 9),
)
def test_repeating_every_pair_changes_no_clustered_test(counts: Any, times: int) -> None:
    once = np.array(counts).T
    for method in ("durkalski", "obuchowski", "yang"):
        left = st.clustered_mcnemar(*once, method)
        right = st.clustered_mcnemar(*(times * once), method)
        if isinstance(left, st.NotEstimable):
            assert isinstance(right, st.NotEstimable)
        else:
            assert right.p == pytest.approx(left.p)  # type: ignore[union-attr]


@FEW
@given(some.lists(some.sampled_from("abcd"), min_size=2, max_size=30))
def test_one_pair_per_cluster_reduces_to_mcnemar(kinds: list[str]) -> None:
    table = np.array([[kind == name for kind in kinds] for name in "abcd"], dtype=int)
    b, c = int(table[1].sum()), int(table[2].sum())
    plain = st.mcnemar(b, c, "chi2").statistic
    durkalski = st.clustered_mcnemar(*table, "durkalski")
    obuchowski = st.clustered_mcnemar(*table, "obuchowski")
    assert isinstance(durkalski, st.TestResult)
    assert isinstance(obuchowski, st.TestResult)
    if plain is None:
        assert durkalski.statistic is None
    else:
        assert durkalski.statistic == pytest.approx(plain)
        shrunk = (len(kinds) - 1) / len(kinds) * plain
        assert obuchowski.statistic == pytest.approx(shrunk)


@FEW
@given(tables(), some.floats(0.01, 100))
def test_a_common_factor_leaves_ratios_alone(table: Any, factor: float) -> None:
    labels, a, b = table
    for function in (st.log_ratio, st.ratio_of_sums):
        plain, scaled = function(labels, a, b), function(labels, factor * a, factor * b)
        assert scaled.estimate == pytest.approx(plain.estimate)
        if isinstance(plain.interval, st.Interval) and not plain.degenerate:
            assume(plain.interval.high / plain.interval.low - 1 > 1e-6)
            assert ends(scaled) == pytest.approx(ends(plain), rel=1e-6)


@FEW
@given(tables(), some.sampled_from(["0.8", "0.9", "0.95", "0.99"]), some.floats(-5, 5))
def test_cr2_test_and_interval_are_dual(table: Any, confidence: str, null: float) -> None:
    labels, a, b = table
    found = st.cluster_sums(labels, b - a)
    sums, sizes = found.sums, found.clusters.sizes
    interval = st.cr2_interval(sums, sizes, confidence=confidence)
    test = st.cr2_test(sums, sizes, null=null)
    assume(isinstance(interval, st.Interval) and isinstance(test, st.TestResult))
    assume(not interval.degenerate)
    alpha = 1 - float(confidence)
    assume(abs(test.p - alpha) > 1e-9)
    assert (test.p <= alpha) == (not interval.low <= null <= interval.high)


@FEW
@given(some.integers(0, 30), some.integers(0, 30), some.integers(0, 60), some.floats(-0.9, 0.9))
def test_tango_interval_holds_what_its_score_does_not_reject(
    b: int, c: int, rest: int, null: float
) -> None:
    n = b + c + rest
    assume(n > 0)
    low, high = ends(st.tango_interval(b, c, n))
    assert -1 <= low <= (c - b) / n <= high <= 1
    test = st.tango_test(b, c, n, null=null)
    assert isinstance(test, st.TestResult)
    assume(abs(test.p - 0.05) > 1e-6)
    assert (test.p > 0.05) == (low <= null <= high)


@FEW
@given(tables(), some.sampled_from(["0.5", "0.8", "0.95"]))
def test_a_higher_level_gives_a_wider_interval(table: Any, confidence: str) -> None:
    labels, a, b = table
    narrow = st.log_ratio(labels, a, b, confidence=confidence)
    wide = st.log_ratio(labels, a, b, confidence="0.99")
    assert ends(wide)[0] <= ends(narrow)[0] <= narrow.estimate * (1 + 1e-12)
    assert ends(wide)[1] >= ends(narrow)[1]


@FEW
@given(some.lists(some.floats(0, 1), min_size=1, max_size=8))
def test_adjusted_p_values_keep_their_order_and_never_shrink(p: list[float]) -> None:
    for function in (st.holm, st.benjamini_hochberg):
        adjusted = function(p)
        assert all(
            new is not None and new >= old - 1e-11 for new, old in zip(adjusted, p, strict=True)
        )
        order = np.argsort(p, kind="stable")
        assert all(np.diff([adjusted[i] for i in order]) >= -1e-12)
    assert all(h >= f - 1e-12 for h, f in zip(st.holm(p), st.benjamini_hochberg(p), strict=True))


@FEW
@given(
    some.floats(-2, 2), some.floats(0, 1), some.floats(0, 1), some.floats(-2, 2), some.floats(0, 3)
)
def test_a_verdict_is_one_word_and_agrees_with_plain_comparison(
    estimate: float, down: float, up: float, low: float, width: float
) -> None:
    assume(down > 1e-6 or up > 1e-6)
    interval = st.Interval(estimate, estimate - down, estimate + up, 0.95, "cr2", 9.0, 10)
    region = st.Region(low, low + width + 1e-3)
    gaps = [abs(x - y) for x in (interval.low, interval.high) for y in (region.low, region.high)]
    assume(min(gaps) > 1e-9)  # type: ignore[operator]
    inside = region.low <= interval.low and interval.high <= region.high  # type: ignore[operator]
    apart = interval.high < region.low or interval.low > region.high  # type: ignore[operator]
    expected = "held" if inside else "failed" if apart else "inconclusive"
    assert st.decide(interval, region).word == expected


@settings(max_examples=15, deadline=None)
@given(
    some.lists(values, min_size=2, max_size=7),
    some.lists(some.floats(1, 3), min_size=7, max_size=7),
)
def test_enumeration_and_draws_agree_within_monte_carlo_error(
    numerator: list[float], denominator: list[float]
) -> None:
    top, bottom = np.array(numerator), np.array(denominator[: len(numerator)])
    sums = st.resampled_sums(KEY, np.stack([top, bottom], axis=1), 9_999)
    draws = sums[:, 0] / sums[:, 1]
    error = st.enumerated_error(top, bottom)
    assert isinstance(error, float)
    assert draws.std() == pytest.approx(error, rel=0.08, abs=1e-12)
    exact = st.enumerated_bootstrap(top, bottom, confidence="0.8")
    assert isinstance(exact, st.Bootstrap)
    below = (draws < exact.interval.low - 1e-9).mean(), (draws <= exact.interval.low + 1e-9).mean()
    assert below[0] - 0.015 <= 0.1 <= below[1] + 0.015


def test_a_cluster_without_rows_cannot_be_smuggled_in() -> None:
    with pytest.raises(st.AnalysisError, match="every cluster needs"):
        st.clustered_mcnemar([1, 0], [1, 0], [0, 0], [0, 0], "yang")
    with pytest.raises(st.AnalysisError, match="every cluster needs"):
        st.tango_effective([1, 0], [0, 0], [3, 0])


def test_an_a_a_run_is_held_as_a_difference_no_more_often_than_alpha() -> None:
    generator = np.random.Generator(np.random.Philox(11))
    faster = st.Region(1.0, None, low_closed=False)
    held = 0
    for _ in range(400):
        a, b = np.exp(0.05 * generator.normal(size=(2, 20)))
        held += (
            st.decide(st.log_ratio(np.arange(20), a, b, confidence="0.90"), faster).word == "held"
        )
    assert held / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
