"""Clusters: the unit of inference, in a canonical order, with sums of their rows.

Labels are text (ordered by UTF-8 bytes) or integers (ordered by value), never by first appearance:
the same rows in another order give the same clusters, so the same resamples and the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import (
    Floats,
    Integers,
    check_finite,
    peaks,
    real_array,
    same_length,
)
from harness.analysis.errors import AnalysisError
from harness.analysis.exact import add, anchors, cut
from harness.analysis.labels import Label, Labels, coded

_CHUNK = 1 << 18
_PARTS = 3
_SPARSE = 4


@dataclass(frozen=True)
class Clusters:
    """Rows sorted into G clusters; build it once for many metrics of the same rows."""

    labels: tuple[Label, ...]
    """G labels in canonical order."""
    codes: Integers
    """For each row the index of its cluster, shape (rows,)."""
    sizes: Integers
    """Rows per cluster, shape (G,)."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class ClusterSums:
    """Sums over the rows of each cluster."""

    clusters: Clusters
    sums: Floats
    """Shape (G,) or (G, m)."""

    @property
    def means(self) -> Floats:
        """Mean of the rows of each cluster, same shape as `sums`."""
        sizes = self.clusters.sizes.astype(np.float64)
        return self.sums / (sizes if self.sums.ndim == 1 else sizes[:, None])


def cluster_key(suite: Sequence[str], task: Sequence[str]) -> list[str]:
    """Return a label per row for (suite, task): one task id in two suites is two clusters."""
    if len(suite) != len(task):
        raise AnalysisError(f"lengths differ: suite {len(suite)}, task {len(task)}")
    for name, ids in (("suite", suite), ("task", task)):
        if any(not isinstance(one, str) or not one for one in ids):
            raise AnalysisError(f"{name}: every row needs a non-empty text id")
    return [f"{one}\x1f{other}" for one, other in zip(suite, task, strict=True)]


def clusters_of(labels: Labels | Clusters) -> Clusters:
    """Return the clusters of per-row labels (text or integers, shape (rows,)).

    Raises `AnalysisError` for a missing label, a mixture of kinds, or no rows.
    """
    if isinstance(labels, Clusters):
        return labels
    found = coded(labels)
    sizes = np.bincount(found.codes, minlength=len(found.labels)).astype(np.int64)
    return Clusters(found.labels, found.codes, sizes)


def cluster_sums(cluster: Labels | Clusters, value: npt.ArrayLike) -> ClusterSums:
    """Return the sum of `value` over the rows of each cluster.

    `value` has shape (rows,) or (rows, m). The sums have the same bits for any order of the rows.
    """
    found = clusters_of(cluster)
    array = real_array(value, "value", ndim=_dimensions(value))
    same_length(cluster=found.codes, value=array)
    peak = peaks(array)
    check_finite(array, peak, "value")
    sums = _sums(found, array.reshape(len(array), -1), peak)
    return ClusterSums(found, sums[:, 0] if array.ndim == 1 else sums)


def _dimensions(value: npt.ArrayLike) -> int:
    try:
        return 2 if np.ndim(value) == 2 else 1
    except (ValueError, TypeError, OverflowError) as error:
        raise AnalysisError("value: not a rectangular array of numbers") from error


def _sums(found: Clusters, table: npt.NDArray[Any], peak: Floats) -> Floats:
    """Return sums of shape (G, m)."""
    totals = ExactSums(len(found), peak, int(found.sizes.max()))
    totals.add(found.codes, table)
    return totals.sums


class ExactSums:
    """Sums per cluster that grow chunk by chunk, with the same bits for any cut into chunks.

    `peak` bounds |value| per column, shape (m,), and `largest` the rows that one cluster may get;
    both must be known beforehand, because they fix the grid on which everything adds exactly.
    """

    def __init__(self, clusters: int, peak: Floats, largest: int) -> None:
        self._clusters = clusters
        self._anchors = anchors(peak, max(largest, 1), _PARTS)
        self._totals = np.zeros((_PARTS, len(peak), clusters))

    def add(self, codes: Integers, table: npt.NDArray[Any]) -> None:
        """Add rows, shape (rows, m), to the clusters `codes`; each row is read from memory once."""
        rows, columns = table.shape
        step = max(_CHUNK // columns, 2 * self._clusters, 1024)
        buffer = np.empty((columns, min(step, rows)))
        places, packed = packed_codes(codes, self._clusters)
        for start in range(0, rows, step):
            part = packed[start : start + step]
            chunk = buffer[:, : len(part)]
            np.copyto(chunk, table[start : start + step].T)
            self._add(part, chunk, places)

    def _add(self, codes: Integers, chunk: Floats, places: Integers | None) -> None:
        size = self._clusters if places is None else len(places)
        for column, values in enumerate(chunk):
            for part, piece in enumerate(cut(values, self._anchors[:, column])):
                counted = np.bincount(codes, weights=piece, minlength=size)
                if places is None:
                    self._totals[part, column] += counted
                else:
                    self._totals[part, column, places] += counted

    @property
    def sums(self) -> Floats:
        """What has been added so far, shape (G, m)."""
        return np.ascontiguousarray(add(list(self._totals)).T)


def packed_codes(codes: Integers, clusters: int) -> tuple[Integers | None, Integers]:
    """Return the clusters that occur and codes among them, where few rows meet many clusters.

    None stands for all clusters, with the codes as they are.
    """
    if clusters <= _SPARSE * len(codes):
        return None, codes
    places, packed = np.unique(codes, return_inverse=True)
    return places, packed.astype(np.int64, copy=False)
