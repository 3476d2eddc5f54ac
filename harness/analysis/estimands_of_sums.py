"""Paired estimands from sums per cluster, for whoever has added up rows that do not fit in memory.

The functions of `estimands` on rows end here too, so both ways give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, count, counts, floats, same_length
from harness.analysis.cr2 import Fit, fit, interval_of
from harness.analysis.errors import NotEstimable
from harness.analysis.labels import Labels
from harness.analysis.precision import Level, level
from harness.analysis.proportions import tango_effective
from harness.analysis.results import Estimate, Interval
from harness.analysis.strata import STRATIFIED, stratified_fit

FEW_CLUSTERS = 6
FEW_DISCORDANT = 10
_LARGEST_LOG = 709.0


def mean_diff_of_sums(
    difference: npt.ArrayLike,
    weight: npt.ArrayLike,
    rows: int,
    confidence: Level = "0.95",
    *,
    strata: Labels | None = None,
) -> Estimate:
    """Return Σ difference / Σ weight, from Σ(B − A) and pairs per cluster, shape (G,).

    `strata` names the stratum of each cluster; see `stratified_interval`.
    """
    top, bottom = floats(difference, "difference"), floats(weight, "weight")
    same_length(difference=top, weight=bottom)
    point = float(top.sum() / bottom.sum())
    result = _fit(top, bottom, strata)
    return _named(_estimate("mean_diff", point, result, (rows, len(top)), confidence), strata)


def log_ratio_of_means(
    means: npt.ArrayLike,
    rows: int,
    confidence: Level = "0.95",
    *,
    strata: Labels | None = None,
) -> Estimate:
    """Return exp of the mean of `means`, the mean log A − log B of each cluster, shape (G,)."""
    each = floats(means, "means")
    result = _fit(each, np.ones_like(each), strata)
    estimate = _estimate("log_ratio", float(each.mean()), result, (rows, len(each)), confidence)
    return _exponentiated(_named(estimate, strata))


def ratio_of_cluster_sums(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    rows: int,
    confidence: Level = "0.95",
    *,
    strata: Labels | None = None,
) -> Estimate | NotEstimable:
    """Return ΣA/ΣB from the sums of both arms per cluster, shape (G,); as `ratio_of_sums`."""
    top, bottom = floats(a, "a"), floats(b, "b")
    same_length(a=top, b=bottom)
    if not np.any(bottom > 0):
        return NotEstimable("b sums to 0")
    point = float(top.sum() / bottom.sum())
    result = _fit(top, bottom, strata)
    estimate = _estimate("ratio_of_sums", point, result, (rows, len(top)), confidence, log=True)
    return _named(estimate, strata)


def accuracy_diff_of_counts(
    lost: npt.ArrayLike,
    won: npt.ArrayLike,
    pairs: npt.ArrayLike,
    confidence: Level = "0.95",
    *,
    strata: Labels | None = None,
) -> Estimate:
    """Return accuracy B − accuracy A from pairs that only A, or only B, got right per cluster."""
    only_a, only_b, sizes = counts(lost, "lost"), counts(won, "won"), counts(pairs, "pairs")
    same_length(lost=only_a, won=only_b, pairs=sizes)
    estimate = replace(
        mean_diff_of_sums(only_b - only_a, sizes, int(sizes.sum()), confidence, strata=strata),
        estimand="accuracy_diff",
    )
    if int(only_a.sum() + only_b.sum()) >= FEW_DISCORDANT:
        return estimate
    note = f"fewer than {FEW_DISCORDANT} discordant pairs: score interval on the effective sample"
    return replace(
        estimate,
        interval=tango_effective(only_a, only_b, sizes, confidence),
        degenerate=False,
        notes=(*(one for one in estimate.notes if not one.startswith("degenerate")), note),
    )


def _fit(top: Floats, bottom: Floats, strata: Labels | None) -> Fit | NotEstimable:
    return fit(top, bottom) if strata is None else stratified_fit(top, bottom, strata)


def _named(estimate: Estimate, strata: Labels | None) -> Estimate:
    """Say in the method that the variance is stratified."""
    interval = estimate.interval
    if strata is None or isinstance(interval, NotEstimable):
        return estimate
    name = interval.method.replace("cr2", STRATIFIED)
    return replace(estimate, interval=replace(interval, method=name))


def _estimate(
    name: str,
    point: float,
    result: Fit | NotEstimable,
    size: tuple[int, int],
    confidence: Level,
    *,
    log: bool = False,
) -> Estimate:
    """`size` holds rows and clusters."""
    level(confidence)
    rows, clusters = count(size[0], "rows"), size[1]
    interval = result if isinstance(result, NotEstimable) else interval_of(result, confidence, log)
    degenerate = isinstance(interval, Interval) and interval.degenerate
    share = None if isinstance(result, NotEstimable) else result.top_share
    notes = _notes(clusters, degenerate, share)
    no_effect = 1.0 if log else 0.0
    return Estimate(name, point, interval, rows, clusters, no_effect, degenerate, share, notes)


def _notes(clusters: int, degenerate: bool, share: float | None) -> tuple[str, ...]:
    notes = []
    if clusters < FEW_CLUSTERS:
        notes.append(f"few clusters ({clusters}): no exact test reaches 5 % below {FEW_CLUSTERS}")
    if degenerate:
        notes.append("degenerate: the clusters show no variation")
    if share is not None and clusters > FEW_CLUSTERS and share > 0.5:
        notes.append(f"one cluster contributes {share:.0%} of the variance")
    return tuple(notes)


def _exponentiated(estimate: Estimate) -> Estimate:
    interval = estimate.interval
    if isinstance(interval, Interval):
        interval = interval.exponentiated()
    return replace(
        estimate,
        estimate=math.exp(min(estimate.estimate, _LARGEST_LOG)),
        interval=interval,
        no_effect=1.0,
    )
