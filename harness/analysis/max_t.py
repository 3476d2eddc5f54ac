"""Max-T: adjusts correlated metrics together, by flips or replicates that all metrics share.

Westfall & Young's single-step adjustment (1993): a metric's adjusted p is how often the largest
statistic of any metric reaches its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import floats
from harness.analysis.bootstrap import RatioData, ratio_data, student_statistics
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level, level
from harness.analysis.resampling import DEFAULT_RESAMPLES, resampled_sums
from harness.analysis.results import Interval
from harness.analysis.sign_flip import MAX_ENUMERATED, TIE, flipped_sums, pattern_sums

_MAX_CELLS = 1 << 24


@dataclass(frozen=True)
class MaxT:
    """p-values of m metrics from shared sign flips."""

    p: tuple[float, ...]
    """Unadjusted, two-sided."""
    adjusted: tuple[float, ...]
    method: str
    clusters: int


def max_t(
    differences: npt.ArrayLike,
    *,
    key: bytes | None = None,
    resamples: int = DEFAULT_RESAMPLES,
) -> MaxT | NotEstimable:
    """Return raw and max-T adjusted p-values for differences of shape (G, m).

    The statistic is |Σd|/√Σd², which sign flips leave on one scale. A metric without any difference
    has p = 1. `key` is needed above 20 clusters.
    """
    values = floats(differences, "differences", ndim=2)
    clusters, metrics = values.shape
    if clusters < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    peak = np.max(np.abs(values), axis=0)
    scaled = values / np.where(peak > 0, peak, 1.0)
    norm = np.sqrt((scaled**2).sum(axis=0))
    scaled = scaled / np.where(norm > 0, norm, 1.0)
    observed = np.abs(scaled.sum(axis=0)) - TIE * np.sqrt(clusters)
    enumerated = clusters <= MAX_ENUMERATED and metrics << clusters <= _MAX_CELLS
    if enumerated:
        drawn, method, extra = np.abs(pattern_sums(scaled)), "max-t-exact", 0
    elif key is None:
        raise AnalysisError(f"key: {clusters} clusters are too many to enumerate")
    else:
        drawn, method, extra = np.abs(flipped_sums(key, scaled, resamples)), "max-t-monte-carlo", 1
    p = ((drawn >= observed).sum(axis=0) + extra) / (len(drawn) + extra)
    top = drawn.max(axis=1)
    reached = (top[:, None] >= observed).sum(axis=0)
    adjusted = (reached + extra) / (len(drawn) + extra)
    silent = norm == 0
    return MaxT(
        tuple(float(x) for x in np.where(silent, 1.0, p)),
        tuple(float(x) for x in np.where(silent, 1.0, adjusted)),
        method,
        clusters,
    )


def max_t_intervals(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    *,
    key: bytes,
    confidence: Level = "0.95",
    log: bool = False,
    resamples: int = DEFAULT_RESAMPLES,
) -> tuple[Interval, ...] | NotEstimable:
    """Return intervals of m ratios that hold together, from sums of shape (G, m).

    Each is θ ± q·se where q is the rank of max|t*| over the metrics at the wanted level; symmetric,
    on the log scale where asked. Needs 20 clusters or more, so that no replicate lacks variance.
    """
    exact = level(confidence)
    data = _metrics(numerators, denominators)
    if isinstance(data, NotEstimable):
        return data
    clusters = data[0].fit.clusters
    if clusters < 20:
        return NotEstimable(f"{clusters} clusters, max-T intervals need 20; use Bonferroni")
    if any(one.fit.se == 0 or (log and one.fit.theta <= 0) for one in data):
        return NotEstimable("a metric shows no variation, or no positive ratio")
    draws = [
        student_statistics(resampled_sums(key, one.columns, resamples), one.fit, log)
        for one in data
    ]
    top = np.max(np.abs(np.stack(draws, axis=1)), axis=1)
    rank = math.ceil((resamples + 1) * exact)
    if rank > resamples or not np.isfinite(top).all():
        return NotEstimable("the replicates do not reach this confidence")
    critical = float(np.partition(top, rank - 1)[rank - 1])
    return tuple(_symmetric(one, critical, float(exact), log) for one in data)


def _metrics(
    numerators: npt.ArrayLike, denominators: npt.ArrayLike
) -> Sequence[RatioData] | NotEstimable:
    top = floats(numerators, "numerators", ndim=2)
    bottom = floats(denominators, "denominators", ndim=2)
    if top.shape != bottom.shape:
        raise AnalysisError(f"shapes differ: numerators {top.shape}, denominators {bottom.shape}")
    found = []
    for column in range(top.shape[1]):
        one = ratio_data(top[:, column], bottom[:, column])
        if isinstance(one, NotEstimable):
            return one
        found.append(one)
    return found


def _symmetric(data: RatioData, critical: float, confidence: float, log: bool) -> Interval:
    theta, half = data.fit.theta, critical * data.fit.se
    low, high = theta - half, theta + half
    if log:
        low, high = theta * math.exp(-half / theta), theta * math.exp(half / theta)
    return Interval(theta, low, high, confidence, "max-t", None, data.fit.clusters)
