"""Tails: how many positions exceed a threshold that was frozen before, clustered by text.

Positions of one text rise and fall together, so the unit is the text: the share is a ratio of sums
over texts. With fewer than 20 texts that have any position in the tail, the share is printed and
nothing is claimed about it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Booleans, binary, counts, floats, real, same_length
from harness.analysis.clusters import Clusters, cluster_sums, clusters_of
from harness.analysis.cr2 import cr2_interval
from harness.analysis.errors import NotEstimable
from harness.analysis.estimands_of_sums import ratio_of_cluster_sums
from harness.analysis.labels import Labels
from harness.analysis.precision import Level
from harness.analysis.results import Estimate, Interval

MIN_TEXTS_WITH_TAIL = 20


def over_threshold(values: npt.ArrayLike, threshold: float) -> Booleans:
    """Return which positions lie strictly above the threshold."""
    return floats(values, "values") > real(threshold, "threshold")


def tail_share(
    text: Labels | Clusters, over: npt.ArrayLike, *, confidence: Level = "0.95"
) -> Estimate:
    """Return Σ tail positions / Σ positions over texts, with its CR2 interval on the log scale.

    `over`: 0/1 per position, shape (positions,); see `over_threshold`.
    """
    found, inside = clusters_of(text), binary(over, "over")
    same_length(text=found.codes, over=inside)
    return tail_share_of_sums(cluster_sums(found, inside).sums, found.sizes, confidence)


def tail_share_of_sums(
    hits: npt.ArrayLike, sizes: npt.ArrayLike, confidence: Level = "0.95"
) -> Estimate:
    """Return `tail_share` from tail positions and positions per text, shape (texts,)."""
    inside, each = counts(hits, "hits"), counts(sizes, "sizes")
    same_length(hits=inside, sizes=each)
    with_tail, rows = int(np.count_nonzero(inside)), int(each.sum())
    interval: Interval | NotEstimable = _too_few(with_tail) or cr2_interval(
        inside, each, confidence=confidence, log=True
    )
    flat = isinstance(interval, Interval) and interval.degenerate
    share = float(inside.sum() / each.sum())
    notes = (f"{with_tail} of {len(each)} texts have a tail",)
    return Estimate("tail_share", share, interval, rows, len(each), None, flat, None, notes)


def tail_ratio(
    text: Labels | Clusters,
    over_a: npt.ArrayLike,
    over_b: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
) -> Estimate | NotEstimable:
    """Return the tail share of arm A over that of arm B, at the same positions.

    Both arms need 20 texts with a tail.
    """
    found = clusters_of(text)
    first, second = binary(over_a, "over_a"), binary(over_b, "over_b")
    same_length(text=found.codes, over_a=first, over_b=second)
    hits = [cluster_sums(found, inside).sums for inside in (first, second)]
    return tail_ratio_of_sums(hits[0], hits[1], len(first), confidence)


def tail_ratio_of_sums(
    hits_a: npt.ArrayLike, hits_b: npt.ArrayLike, rows: int, confidence: Level = "0.95"
) -> Estimate | NotEstimable:
    """Return `tail_ratio` from tail positions per text in both arms, shape (texts,)."""
    first, second = counts(hits_a, "hits_a"), counts(hits_b, "hits_b")
    fewest = min(int(np.count_nonzero(first)), int(np.count_nonzero(second)))
    estimate = ratio_of_cluster_sums(first, second, rows, confidence)
    if isinstance(estimate, NotEstimable):
        return _too_few(fewest) or estimate
    note = f"at least {fewest} of {len(first)} texts have a tail in each arm"
    refusal = _too_few(fewest)
    return replace(
        estimate,
        estimand="tail_ratio",
        interval=refusal or estimate.interval,
        degenerate=estimate.degenerate and refusal is None,
        notes=(*estimate.notes, note),
    )


def _too_few(with_tail: int) -> NotEstimable | None:
    if with_tail >= MIN_TEXTS_WITH_TAIL:
        return None
    return NotEstimable(f"{with_tail} texts have a tail, needs {MIN_TEXTS_WITH_TAIL}")
