"""Paired estimands of an A/B run: per-row values of both arms in, an estimate with interval out.

Each row is one pair: the values of arm A and arm B on the same task and repeat. Every task is first
collapsed to one number (or one pair of sums), so repeats, tokens and positions never add clusters.
Name one per prediction; none is a default, and the mean of per-row ratios is not offered, because
it can claim a speed-up in both directions at once.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import (
    EXACT_INTEGERS,
    binary,
    choice,
    numbers,
    peaks,
    same_length,
)
from harness.analysis.clusters import Clusters, cluster_sums, clusters_of
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.estimands_of_sums import (
    accuracy_diff_of_counts,
    log_ratio_of_means,
    mean_diff_of_sums,
    ratio_of_cluster_sums,
)
from harness.analysis.labels import Labels
from harness.analysis.precision import Level
from harness.analysis.results import Estimate

Weights = Literal["cluster", "row"]


def mean_diff(
    cluster: Labels | Clusters,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    weights: Weights,
    confidence: Level = "0.95",
) -> Estimate:
    """Return the mean of B − A with its CR2 interval; the scale is that of the values.

    `a`, `b`: shape (rows,). `weights` must be stated: "cluster" weighs every cluster alike (mean of
    cluster means), "row" every row (Σ over rows / rows).
    """
    choice(weights, ("cluster", "row"), "weights")
    found, left, right = _pairs(cluster, a, b)
    table = cluster_sums(found, _difference(left, right))
    sizes = found.sizes.astype(np.float64)
    if weights == "cluster":
        return mean_diff_of_sums(table.means, np.ones_like(sizes), len(left), confidence)
    return mean_diff_of_sums(table.sums, sizes, len(left), confidence)


def log_ratio(
    cluster: Labels | Clusters, a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: Level = "0.95"
) -> Estimate:
    """Return the geometric-mean ratio A/B: exp of the cluster mean of mean log A − mean log B.

    With times this is the speed-up of B over A (above 1: B is faster). Estimate and interval are
    ratios; the CR2 interval is formed on the mean log. Swapping the arms inverts everything.
    Raises `AnalysisError` unless every value is positive.
    """
    found, left, right = _pairs(cluster, a, b)
    for name, values in (("a", left), ("b", right)):
        if np.any(values <= 0):
            raise AnalysisError(f"{name}: a value of 0 or less has no logarithm")
    logs = np.log(left.astype(np.float64)) - np.log(right.astype(np.float64))
    return log_ratio_of_means(cluster_sums(found, logs).means, len(left), confidence)


def ratio_of_sums(
    cluster: Labels | Clusters, a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: Level = "0.95"
) -> Estimate | NotEstimable:
    """Return ΣA/ΣB (of times: a speed-up) with its CR2 interval on the log scale.

    Values are at least 0. Swapping the arms inverts the estimate exactly and the interval up to the
    leverages, which CR2 takes from the denominator. Not estimable where B sums to 0.
    """
    found, left, right = _pairs(cluster, a, b)
    for name, values in (("a", left), ("b", right)):
        if np.any(values < 0):
            raise AnalysisError(f"{name}: a ratio of sums needs values of at least 0")
    top, bottom = cluster_sums(found, left).sums, cluster_sums(found, right).sums
    return ratio_of_cluster_sums(top, bottom, len(left), confidence)


def accuracy_diff(
    cluster: Labels | Clusters, a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: Level = "0.95"
) -> Estimate:
    """Return accuracy B − accuracy A over rows of right (1) and wrong (0) answers.

    The interval follows a rule frozen here: below ten discordant pairs Tango's score interval on
    the effective sample, else CR2. So 0 discordant of 100 gives ±3.7 points, never [0, 0].
    """
    found, right_a, right_b = clusters_of(cluster), binary(a, "a"), binary(b, "b")
    same_length(cluster=found.codes, a=right_a, b=right_b)
    lost = cluster_sums(found, (right_a & ~right_b)).sums
    won = cluster_sums(found, (right_b & ~right_a)).sums
    return accuracy_diff_of_counts(lost, won, found.sizes, confidence)


def _pairs(
    cluster: Labels | Clusters, a: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[Clusters, npt.NDArray[Any], npt.NDArray[Any]]:
    found, left, right = clusters_of(cluster), numbers(a, "a"), numbers(b, "b")
    same_length(cluster=found.codes, a=left, b=right)
    return found, left, right


def _difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return B − A, in integers where both are, so that nanoseconds stay exact."""
    whole = a.dtype.kind in "bi" and b.dtype.kind in "bi"
    if whole and max(float(peaks(a)[0]), float(peaks(b)[0])) < EXACT_INTEGERS:
        return b.astype(np.int64) - a.astype(np.int64)
    return b.astype(np.float64) - a.astype(np.float64)
