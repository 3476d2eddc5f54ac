"""Sums that do not depend on the order of their terms, for any floats.

Values are cut into slices that lie on a common grid coarse enough for every partial sum to be
exact; a slice then adds without rounding in any order, in any chunk, on any kernel, and only the
final addition of the slices rounds. Integers (nanoseconds, counts) whose sums stay below 2^52 are
one slice. The cut is the pre-rounding of Rump, Ogita & Oishi (2008) and Demmel & Nguyen (2013):
adding and subtracting M = 1.5·2^k rounds a value to a multiple of ulp(M).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.arrays import Floats, peaks

MAX_TERMS = 1 << 40
_TINY = 2.0**-900


def anchors(peak: Floats, terms: int, parts: int) -> Floats:
    """Return M for each slice and column, shape (parts, m), from max|v| per column, shape (m,).

    `terms` bounds the total weight of a sum (rows, or draws in a resample). What the last slice
    drops is below 2^−(parts·(51 − log₂ terms)) of the column's peak: with 3 parts and 10^6 terms,
    2^−93.
    """
    if not 0 < terms < MAX_TERMS:
        raise AssertionError(f"{terms} terms are too many to add exactly")
    room = math.ceil(math.log2(terms)) + 1
    found, left = np.zeros((parts, len(peak))), peak
    for part in range(parts):
        used = left > _TINY
        exponent = np.where(used, np.frexp(left)[1] + room, 0)
        found[part] = np.where(used, np.ldexp(1.5, exponent), 0.0)
        left = np.where(used, np.ldexp(1.0, exponent - 52), 0.0)
    return found


def cut(values: Floats, each: Sequence[Floats] | Floats) -> Iterator[Floats]:
    """Yield slices of `values`, largest first, until nothing is left or the anchors end."""
    rest = values
    for anchor in each:
        part = rest + anchor
        part -= anchor
        yield part
        rest = rest - part
        if not rest.any():
            return


def slices(values: Floats, terms: int, parts: int = 2) -> tuple[Floats, ...]:
    """Return arrays that add up to `values`, shape (rows, m), each exact in sums of ≤ `terms`."""
    return tuple(cut(values, anchors(peaks(values), terms, parts)))


def exact_product(weights: Floats, values: Floats, terms: int) -> Floats:
    """Return weights @ values, (B, G) × (G, m), bit-identical on any BLAS kernel and thread count.

    `weights` are whole numbers whose rows have an absolute total of at most `terms`.
    """
    return add([weights @ part for part in slices(values, terms)])


def add(parts: list[Floats]) -> Floats:
    """Return the sum of slices, smallest first, rounding once per slice."""
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = total + part
    return total
