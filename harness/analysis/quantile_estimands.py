"""Ratio and difference of a quantile between arms, over the pooled rows of each arm.

The interval is the percentile bootstrap over clusters, conservative for quantiles; BCa is not
offered, because the jackknife behind it is inconsistent there. A quantile with fewer than ten rows
beyond it (a p95 of 8 tasks × 5 runs has two) is not estimable.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, floats, same_length
from harness.analysis.clusters import Clusters, clusters_of
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.intervals_of_draws import rank_ends
from harness.analysis.labels import Labels
from harness.analysis.precision import Level, level
from harness.analysis.quantiles import quantile, rows_beyond
from harness.analysis.resampled_quantiles import resampled_quantiles
from harness.analysis.resampling import DEFAULT_RESAMPLES
from harness.analysis.results import Estimate, Interval

MIN_ROWS_BEYOND = 10


def quantile_ratio(
    cluster: Labels | Clusters,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    p: Level,
    *,
    key: bytes,
    confidence: Level = "0.95",
    resamples: int = DEFAULT_RESAMPLES,
) -> Estimate:
    """Return quantile A / quantile B (with times: a speed-up at that quantile); values above 0."""
    left, right = floats(a, "a"), floats(b, "b")
    if np.any(left <= 0) or np.any(right <= 0):
        raise AnalysisError("a ratio of quantiles needs values above 0")
    return _compared(cluster, left, right, p, key, confidence, resamples, ratio=True)


def quantile_diff(
    cluster: Labels | Clusters,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    p: Level,
    *,
    key: bytes,
    confidence: Level = "0.95",
    resamples: int = DEFAULT_RESAMPLES,
) -> Estimate:
    """Return quantile B − quantile A; not the quantile of the differences."""
    left, right = floats(a, "a"), floats(b, "b")
    return _compared(cluster, left, right, p, key, confidence, resamples, ratio=False)


def _compared(
    cluster: Labels | Clusters,
    a: Floats,
    b: Floats,
    p: Level,
    key: bytes,
    confidence: Level,
    resamples: int,
    *,
    ratio: bool,
) -> Estimate:
    found, exact = clusters_of(cluster), float(level(confidence))
    same_length(cluster=found.codes, a=a, b=b)
    point = _contrast(np.array(quantile(a, p)), np.array(quantile(b, p)), ratio=ratio)
    interval: Interval | NotEstimable
    beyond = rows_beyond(len(a), p)
    if len(found) < 2:
        interval = NotEstimable("one cluster carries no variation between clusters")
    elif beyond < MIN_ROWS_BEYOND:
        interval = NotEstimable(f"{beyond} rows beyond the quantile, needs {MIN_ROWS_BEYOND}")
    else:
        draws = [resampled_quantiles(key, found, x, p, resamples) for x in (a, b)]
        ends = rank_ends(_contrast(draws[0], draws[1], ratio=ratio), confidence)
        interval = (
            NotEstimable(f"{resamples} resamples are too few for this confidence")
            if ends is None
            else Interval(float(point), *ends, exact, "percentile", None, len(found))
        )
    flat = isinstance(interval, Interval) and interval.degenerate
    name = "quantile_ratio" if ratio else "quantile_diff"
    notes = ("degenerate: every resample has the same quantiles",) if flat else ()
    no_effect = 1.0 if ratio else 0.0
    return Estimate(name, float(point), interval, len(a), len(found), no_effect, flat, None, notes)


def _contrast(a: Floats, b: Floats, *, ratio: bool) -> Floats:
    return np.asarray(a / b if ratio else b - a)
