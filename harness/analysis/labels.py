"""Labels of clusters: text or integers, read into a canonical order, with a code per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Integers, listed
from harness.analysis.errors import AnalysisError

Labels = npt.ArrayLike
Label = str | int
_DENSE = 4


@dataclass(frozen=True)
class Coded:
    """Distinct labels in canonical order, and for each row the index of its label."""

    labels: tuple[Label, ...]
    codes: Integers


def coded(labels: Labels) -> Coded:
    """Return labels ordered by UTF-8 bytes (text) or by value (integers), never by appearance.

    Raises `AnalysisError` for no rows, a missing label (None, NaN, masked, empty), or a mixture.
    """
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1:
        if np.ma.is_masked(labels):
            raise AnalysisError("cluster: a label is missing")
        return _integers(labels)
    rows = _rows(labels)
    kinds = set(map(type, rows))
    if all(issubclass(kind, str) for kind in kinds):
        return _texts(rows)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return _integers(np.array(rows, dtype=np.int64))
        except OverflowError as error:
            raise AnalysisError("cluster: an integer label exceeds 64 bits; use text") from error
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise AnalysisError(f"cluster: labels are {names}; need all text or all integers")


def _rows(labels: object) -> list[Any]:
    rows = listed(labels, "cluster")
    if not rows:
        raise AnalysisError("cluster: is empty")
    for label in rows:
        if label is None or (isinstance(label, float) and label != label) or _blank(label):
            raise AnalysisError("cluster: a label is missing")
    return rows


def _blank(label: object) -> bool:
    return isinstance(label, str) and not label


def _texts(rows: list[str]) -> Coded:
    """Python compares text by code point, which is the order of its UTF-8 bytes."""
    distinct = sorted(set(rows))
    index = {label: place for place, label in enumerate(distinct)}
    codes = np.fromiter(map(index.__getitem__, rows), dtype=np.int64, count=len(rows))
    return Coded(tuple(map(str, distinct)), codes)


def _integers(rows: npt.NDArray[Any]) -> Coded:
    """Linear time where the integers lie densely, by sorting where not."""
    if rows.size == 0:
        raise AnalysisError("cluster: is empty")
    low, high = int(rows.min()), int(rows.max())
    if high > np.iinfo(np.int64).max:
        raise AnalysisError("cluster: an integer label exceeds 64 bits; use text")
    array = rows.astype(np.int64, copy=False)
    if high - low >= _DENSE * len(array) + 1024:
        distinct, codes = np.unique(array, return_inverse=True)
        return Coded(tuple(distinct.tolist()), codes.astype(np.int64, copy=False))
    shifted = array - low
    present = np.bincount(shifted, minlength=high - low + 1) > 0
    places = np.cumsum(present) - 1
    return Coded(tuple((np.flatnonzero(present) + low).tolist()), places[shifted])
