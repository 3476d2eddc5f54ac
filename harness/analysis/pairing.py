"""From long rows (task, arm, repeat, value) to pairs, with nothing dropped in silence.

A missing value drops its pair and is counted; the bounds say how far it could have moved the
answer. A duplicate key stops the analysis even where the rows are identical, and so does a missing
id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.arrays import Floats, listed
from harness.analysis.clusters import clusters_of
from harness.analysis.errors import AnalysisError, NotEstimable

Label = str | int
Key = tuple[Label, Label]
"""(task, repeat)"""


@dataclass(frozen=True)
class Pairs:
    """Complete pairs in canonical order, and what was left out."""

    tasks: tuple[Label, ...]
    """Cluster label of each pair."""
    a: Floats
    b: Floats
    dropped: tuple[Key, ...]
    """(task, repeat) of pairs without both values."""
    partial: tuple[tuple[float | None, float | None], ...]
    """What is known of each dropped pair: (value A, value B)."""

    @property
    def missing_share(self) -> float:
        """Share of pairs that were dropped."""
        return len(self.dropped) / (len(self.tasks) + len(self.dropped))


@dataclass(frozen=True)
class MissingBounds:
    """The mean difference B − A if every missing value had gone as badly, or as well, as it can."""

    worst: float
    best: float


def pair_rows(
    task: Sequence[Label],
    arm: Sequence[str],
    value: Sequence[float | None],
    repeat: Sequence[Label] | None = None,
    *,
    arms: tuple[str, str] = ("A", "B"),
) -> Pairs:
    """Return the pairs of long rows; None or NaN marks a value that is missing.

    `repeat` tells the pairs of one task apart (the visit, the sample); without it a task has one
    pair. Raises `AnalysisError` for a missing id, an unknown arm, a duplicate key, or a value that
    is infinite or no number.
    """
    task, arm, value = listed(task, "task"), listed(arm, "arm"), listed(value, "value")
    repeats: list[Label] = [0] * len(task) if repeat is None else listed(repeat, "repeat")
    if len({len(task), len(arm), len(value), len(repeats)}) > 1:
        raise AnalysisError("lengths differ: task, arm, value and repeat need one entry per row")
    clusters_of(task)
    clusters_of(repeats)
    found: dict[Key, list[float | None]] = {}
    seen: set[tuple[Label, Label, str]] = set()
    for row, (one, side, number, again) in enumerate(zip(task, arm, value, repeats, strict=True)):
        if not isinstance(side, str) or side not in arms:
            raise AnalysisError(f"row {row}: arm {side!r} is neither {arms[0]!r} nor {arms[1]!r}")
        if (one, again, side) in seen:
            raise AnalysisError(f"row {row}: duplicate key ({one!r}, {side!r}, {again!r})")
        seen.add((one, again, side))
        found.setdefault((one, again), [None, None])[arms.index(side)] = _known(number, row)
    return _collected(found)


def _known(value: float | None, row: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, str | bytes | complex) or np.ndim(value) != 0:
        raise AnalysisError(f"row {row}: {value!r} is not a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise AnalysisError(f"row {row}: {value!r} is not a number") from error
    if math.isinf(number):
        raise AnalysisError(f"row {row}: the value is infinite")
    return None if math.isnan(number) else number


def _collected(found: dict[Key, list[float | None]]) -> Pairs:
    order = sorted(found, key=lambda key: (_sortable(key[0]), _sortable(key[1])))
    whole = [key for key in order if None not in found[key]]
    dropped = tuple(key for key in order if None in found[key])
    values = np.array([found[key] for key in whole], dtype=np.float64).reshape(len(whole), 2)
    return Pairs(
        tuple(key[0] for key in whole),
        values[:, 0].copy(),
        values[:, 1].copy(),
        dropped,
        tuple((found[key][0], found[key][1]) for key in dropped),
    )


def _sortable(label: Label) -> tuple[int, bytes]:
    return (0, label.encode("utf-8", "surrogatepass")) if isinstance(label, str) else (label, b"")


def missing_bounds(
    pairs: Pairs, low: float = 0.0, high: float = 1.0
) -> MissingBounds | NotEstimable:
    """Return worst and best mean B − A over all pairs with missing values in [low, high]."""
    if low > high:
        raise AnalysisError(f"low: {low} is above high, {high}")
    total = len(pairs.tasks) + len(pairs.dropped)
    if total == 0:
        return NotEstimable("no pairs")
    known = float((pairs.b - pairs.a).sum())
    worst = sum((low if b is None else b) - (high if a is None else a) for a, b in pairs.partial)
    best = sum((high if b is None else b) - (low if a is None else a) for a, b in pairs.partial)
    return MissingBounds((known + worst) / total, (known + best) / total)
