"""Tango's score equation for the difference of two paired shares, solved by bisection.

T(δ) = (c − b − nδ) / √(n(2q(δ) + δ(1 − δ))), where q(δ) is the share of lost pairs that maximises
the likelihood when the difference is δ (Tango 1998). T falls in δ; the ends are where it crosses
±z.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_STEPS = 64


def _score(
    delta: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], n: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    second = -b - c + (2 * n - c + b) * delta
    third = -b * delta * (1 - delta)
    root = np.sqrt(np.maximum(second**2 - 8 * n * third, 0.0))
    with np.errstate(all="ignore"):
        lost = np.where(second > 0, -2 * third / (second + root), (root - second) / (4 * n))
        variance = n * (2 * lost + delta * (1 - delta))
        gap = c - b - n * delta
        score = gap / np.sqrt(variance)
    edge = np.where(gap > 0, np.inf, np.where(gap < 0, -np.inf, np.nan))
    return np.where(variance > 0, score, edge)


def tango_bounds(
    b: npt.ArrayLike, c: npt.ArrayLike, n: npt.ArrayLike, z: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return both ends for arrays of counts, which need not be whole (effective samples).

    Without discordant pairs the ends are ±z²/(n + z²); with c = n the upper end is 1.
    """
    lost, won, total = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (b, c, n)))
    estimate = (won - lost) / total
    outside, inside = np.full_like(estimate, -1.0), estimate.copy()
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        beyond = _score(middle, lost, won, total) > z
        outside, inside = np.where(beyond, middle, outside), np.where(beyond, inside, middle)
    low = np.where(estimate <= -1, -1.0, inside)
    outside, inside = np.full_like(estimate, 1.0), estimate.copy()
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        beyond = _score(middle, lost, won, total) < -z
        outside, inside = np.where(beyond, middle, outside), np.where(beyond, inside, middle)
    return low, np.where(estimate >= 1, 1.0, inside)


def tango_score(delta: float, b: float, c: float, n: float) -> float:
    """Return T(δ); infinite where the variance under δ is 0, NaN for 0/0 (no discordance at 0)."""
    arrays = (np.asarray(x, dtype=np.float64) for x in (delta, b, c, n))
    return float(_score(*arrays))
