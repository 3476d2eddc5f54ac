"""Type-1 quantiles of pooled rows in every bootstrap replicate, without touching every row.

Rows are sorted once and cut into bins of equal count. One product of replicate counts with rows per
(cluster, bin) gives each replicate's cumulative weight at the bin edges; the wanted rank then lies
in one bin, and only its rows are scanned. Bins far from the plain quantile are merged into one
column below and one above; a replicate that leaves that window is found out by its weights and
redone over all bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers, floats, same_length
from harness.analysis.clusters import Clusters, clusters_of
from harness.analysis.labels import Labels
from harness.analysis.precision import Level, level
from harness.analysis.quantiles import rank_of, ranks_of
from harness.analysis.resampling import blocks_of

BINS = 2048
WINDOW = 6.0


@dataclass(frozen=True)
class SortedRows:
    """Pooled rows of one metric in order of value."""

    values: Floats
    codes: Integers
    """Cluster of each sorted row."""
    sizes: Integers
    """Rows per cluster."""


@dataclass(frozen=True)
class Bins:
    """A run of bins of the sorted rows, with the rows that each cluster has in and below them."""

    edges: Integers
    """First row of each bin, and the end: shape (k + 1,)."""
    weights: Floats
    """Rows per (cluster, column): below the run, then each bin; shape (G, k + 1)."""


def resampled_quantiles(
    key: bytes, cluster: Labels | Clusters, values: npt.ArrayLike, p: Level, resamples: int
) -> Floats:
    """Return the type-1 quantile of the rows that each replicate holds, shape (resamples,).

    `values` has shape (rows,). Replicates are those of plan v1, shared with every other metric of
    the same clusters; a replicate draws whole clusters, so its number of rows varies.
    """
    found, array = clusters_of(cluster), floats(values, "values")
    same_length(cluster=found.codes, values=array)
    share = Fraction(level(p, "p"))
    order = np.argsort(array, kind="stable")
    rows = SortedRows(array[order], found.codes[order], found.sizes)
    window = _bins(rows, *_window(rows, share))
    result = np.empty(resamples)
    for place, counts in blocks_of(key, len(found), resamples):
        result[place] = _block(rows, window, counts, share)
    return result


def _window(rows: SortedRows, share: Fraction) -> tuple[int, int]:
    """Return the rows within six standard errors of the wanted rank, over clusters."""
    size = len(rows.values)
    centre = rank_of(share, size)
    below = np.bincount(rows.codes[:centre], minlength=len(rows.sizes))
    spread = float(np.sqrt(((below - float(share) * rows.sizes) ** 2).sum()))
    reach = int(WINDOW * spread) + size // BINS + 1
    return max(0, centre - reach), min(size, centre + reach)


def _bins(rows: SortedRows, start: int, stop: int) -> Bins:
    size = len(rows.values)
    width = max(1, size // BINS)
    edges = np.append(np.arange(start, stop, width, dtype=np.int64), stop)
    clusters, columns = len(rows.sizes), len(edges)
    column = np.searchsorted(edges, np.arange(stop), side="right")
    flat = np.bincount(rows.codes[:stop] * columns + column, minlength=clusters * columns)
    return Bins(edges, flat.reshape(clusters, columns).astype(np.float64))


def _block(rows: SortedRows, bins: Bins, counts: Floats, share: Fraction) -> Floats:
    totals = np.rint(counts @ rows.sizes.astype(np.float64)).astype(np.int64)
    need = ranks_of(share, totals)
    reached = np.cumsum(counts @ bins.weights, axis=1)
    inside = (reached[:, 0] < need) & (reached[:, -1] >= need)
    found = np.empty(len(counts))
    if not inside.all():
        whole = _bins(rows, 0, len(rows.values))
        if whole.weights.shape == bins.weights.shape:
            raise AssertionError("the full set of bins holds every rank")
        found[~inside] = _block(rows, whole, counts[~inside], share)
    chosen = np.argmax(reached >= need[:, None], axis=1)
    for column in np.unique(chosen[inside]):
        here = inside & (chosen == column)
        left = need[here] - reached[here, column - 1]
        first, last = int(bins.edges[column - 1]), int(bins.edges[column])
        weights = np.cumsum(counts[here][:, rows.codes[first:last]], axis=1)
        found[here] = rows.values[first + np.argmax(weights >= left[:, None], axis=1)]
    return found
