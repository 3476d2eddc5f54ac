"""Quantiles of pooled rows: one definition, and a fast way that equals the slow one exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness import analysis as st

KEY = bytes(range(16))


def brute_force(cluster: np.ndarray, values: np.ndarray, p: str, resamples: int) -> list[float]:
    counts = st.bootstrap_counts(KEY, len(set(cluster.tolist())), resamples)
    codes = st.clusters_of(cluster).codes
    return [st.weighted_quantile(values, row[codes], p) for row in counts]


@pytest.mark.parametrize("p", ["0.5", "0.95", "0.99", "0.001"])
@pytest.mark.parametrize("rows", [40, 3_000])
def test_two_level_quantiles_equal_brute_force(p: str, rows: int) -> None:
    generator = np.random.Generator(np.random.Philox(rows))
    cluster = generator.integers(0, 23, rows)
    values = np.round(generator.lognormal(0, 1, rows), 2)
    found = st.resampled_quantiles(KEY, cluster, values, p, 300)
    assert found.tolist() == brute_force(cluster, values, p, 300)


def test_replicates_that_leave_the_window_are_redone() -> None:
    """Sorted clusters of very different value: the pooled median moves far between replicates."""
    cluster = np.repeat(np.arange(3), [2_000, 100, 1_900])
    values = np.concatenate(
        [np.linspace(0, 1, 2_000), np.linspace(5, 6, 100), np.linspace(9, 10, 1_900)]
    )
    found = st.resampled_quantiles(KEY, cluster, values, "0.5", 256)
    assert found.tolist() == brute_force(cluster, values, "0.5", 256)
    assert found.min() < 1
    assert found.max() > 9


def test_ranks_are_exact_where_floats_are_not() -> None:
    assert 0.95 * 20 == 19.0
    assert 0.07 * 100 > 7, "the float says rank 8"
    values = np.arange(1, 101)
    assert st.quantile(values, "0.07") == 7
    assert st.weighted_quantile(values, np.ones(100), "0.07") == 7
    numpy_says = np.quantile(values, 0.5, method="inverted_cdf")
    assert st.quantile(values, "0.5") == numpy_says
    assert Fraction("0.07") * 100 == 7


def test_speedup_at_the_median() -> None:
    generator = np.random.Generator(np.random.Philox(2))
    cluster = np.repeat(np.arange(60), 5)
    a = generator.lognormal(0, 0.3, 300)
    estimate = st.quantile_ratio(cluster, 2 * a, a, "0.5", key=KEY, resamples=999)
    assert estimate.estimate == 2
    assert estimate.degenerate
    b = a * generator.lognormal(0, 0.05, 300)
    estimate = st.quantile_ratio(cluster, 2 * a, b, "0.5", key=KEY, resamples=999)
    assert isinstance(estimate.interval, st.Interval)
    assert estimate.interval.low < 2 < estimate.interval.high
    assert estimate.interval.method == "percentile"


def test_a_p95_of_forty_rows_is_not_estimable() -> None:
    cluster, values = np.repeat(np.arange(8), 5), np.arange(1.0, 41.0)
    estimate = st.quantile_diff(cluster, values, values + 1, "0.95", key=KEY)
    assert estimate.estimate == 1
    assert estimate.interval == st.NotEstimable("2 rows beyond the quantile, needs 10")


def test_a_difference_of_medians_is_not_the_median_of_differences() -> None:
    estimate = st.quantile_diff([0, 1, 2], [1, 5, 9], [2, 9, 3], "0.5", key=KEY)
    assert estimate.estimate == -2
