"""Quantiles whose definition is fixed: type 1, the inverse distribution function, exact ranks.

A weighted bootstrap and an interpolating quantile of gathered rows disagree (the median of 1, 1, 3,
10 is 1 by type 1 and 2 by type 7), so every decision uses type 1. Types 6 and 7 are for comparison.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Integers, choice, counts, floats, same_length
from harness.analysis.errors import AnalysisError
from harness.analysis.precision import Level, level

QuantileType = Literal[1, 6, 7]


def quantile(values: npt.ArrayLike, p: Level, kind: QuantileType = 1) -> float:
    """Return the quantile of Hyndman & Fan's type 1, 6 or 7 (1996), with p as an exact decimal.

    >>> quantile([1, 1, 3, 10], "0.5")
    1.0
    """
    choice(str(kind), ("1", "6", "7"), "kind")
    ordered, share = np.sort(floats(values, "values")), Fraction(level(p, "p"))
    size = len(ordered)
    if kind == 1:
        return float(ordered[rank_of(share, size) - 1])
    position = share * (size + 1) if kind == 6 else share * (size - 1) + 1
    position = min(max(position, Fraction(1)), Fraction(size))
    below = math.floor(position)
    above = min(below + 1, size)
    low, high = float(ordered[below - 1]), float(ordered[above - 1])
    return low + float(position - below) * (high - low)


def rank_of(share: Fraction, total: int) -> int:
    """Return ⌈p·n⌉, at least 1."""
    return max(1, math.ceil(share * total))


def weighted_quantile(values: npt.ArrayLike, weights: npt.ArrayLike, p: Level) -> float:
    """Return the type-1 quantile of values repeated `weights` times."""
    array, times = floats(values, "values"), counts(weights, "weights")
    same_length(values=array, weights=times)
    total = int(times.sum())
    if total == 0:
        raise AnalysisError("weights: are all 0")
    order = np.argsort(array, kind="stable")
    reached = np.cumsum(times[order])
    need = rank_of(Fraction(level(p, "p")), total)
    return float(array[order[int(np.searchsorted(reached, need))]])


def ranks_of(share: Fraction, totals: Integers) -> Integers:
    """Return ⌈p·n⌉ for an array of n, in integers throughout."""
    top, bottom = share.numerator, share.denominator
    if int(totals.max(initial=0)) * top >= 2**62:
        raise AnalysisError("p: has too many decimals for this many rows")
    return np.maximum(-((-totals * top) // bottom), 1)


def rows_beyond(size: int, p: Level) -> int:
    """Return how many of `size` rows lie strictly beyond the quantile, on its shorter side."""
    rank = rank_of(Fraction(level(p, "p")), size)
    return min(rank - 1, size - rank)
