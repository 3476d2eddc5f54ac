"""Two crossed sources of variation: texts and perturbation seeds, prompts and process starts.

Where every text meets every seed, rows share an error with all rows of the same text and with all
rows of the same seed. The variance adds both and takes off what was counted twice (Cameron, Gelbach
& Miller 2011): V = V(text) + V(seed) − V(text × seed), each CR1, and never less than the larger of
the first two. The degrees of freedom are those of the scarcer source, so three seeds give a wide
interval."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from harness.analysis.arrays import Floats, floats, same_length
from harness.analysis.clusters import Clusters, cluster_sums, clusters_of
from harness.analysis.errors import NotEstimable
from harness.analysis.labels import Labels
from harness.analysis.precision import Level, level, tails
from harness.analysis.results import Estimate, Interval

_NOISE = 1e-13


def crossed_mean(
    first: Labels, second: Labels, value: npt.ArrayLike, *, confidence: Level = "0.95"
) -> Estimate:
    """Return the mean over rows with an interval over both crossed labels, shape (rows,) each.

    Pass a difference or a log ratio per row; the scale is that of the values.
    """
    one, other, array = clusters_of(first), clusters_of(second), floats(value, "value")
    rows = same_length(first=one.codes, second=other.codes, value=array)
    exact = float(level(confidence))
    mean = float(cluster_sums(np.zeros(rows, dtype=np.int64), array).sums[0]) / rows
    fewest = min(len(one), len(other))
    interval: Interval | NotEstimable
    if fewest < 2:
        interval = NotEstimable("one cluster carries no variation between clusters")
    else:
        df = fewest - 1
        half = float(stdtrit(df, float(tails(confidence)[1]))) * _error(one, other, array - mean)
        interval = Interval(mean, mean - half, mean + half, exact, "crossed", df, fewest)
    flat = isinstance(interval, Interval) and interval.degenerate
    notes = (f"{len(one)} × {len(other)} crossed clusters",)
    return Estimate("crossed_mean", mean, interval, rows, fewest, 0.0, flat, None, notes)


def _error(one: Clusters, other: Clusters, residual: Floats) -> float:
    cells = clusters_of(one.codes * len(other) + other.codes)
    each, across, both = (_variance(found, residual) for found in (one, other, cells))
    return math.sqrt(max(each + across - both, each, across))


def _variance(found: Clusters, residual: Floats) -> float:
    """Return the CR1 variance of the mean; rounding noise counts as none."""
    if len(found) < 2:
        return 0.0
    sums = cluster_sums(found, residual).sums
    size = float(np.abs(residual).max())
    sums = np.where(np.abs(sums) <= _NOISE * size * found.sizes, 0.0, sums)
    return len(found) / (len(found) - 1) * float((sums**2).sum()) / len(residual) ** 2
