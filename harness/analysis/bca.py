"""BCa intervals by enumeration: for comparison only, discouraged, never deciding.

Efron (1987). Packages disagree on the acceleration (jackknife values centred on their mean, or on
the estimate) and on ties (half counted, or strictly below); both are named here. With few clusters
BCa covers less than the plain percentile, and for quantiles its jackknife is inconsistent.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from harness.analysis.arrays import LARGEST, Floats, choice, floats
from harness.analysis.bootstrap import ratio_data
from harness.analysis.enumeration import resampled_ratios
from harness.analysis.errors import NotEstimable
from harness.analysis.intervals_of_draws import inverse_cdf
from harness.analysis.precision import Level, level, tails
from harness.analysis.results import Interval

Centre = Literal["mean", "estimate"]
Ties = Literal["half", "strict"]


@dataclass(frozen=True)
class BcaInterval:
    """A BCa interval with the constants that shaped it."""

    interval: Interval
    bias: float
    """z₀."""
    acceleration: float
    low_share: float
    """Share of the resamples below the lower end."""
    high_share: float


def jackknife(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats | NotEstimable:
    """Return ΣN/ΣD without each cluster in turn, shape (G,)."""
    top, bottom = floats(numerator, "numerator"), floats(denominator, "denominator")
    rest = bottom.sum() - bottom
    if len(top) < 2 or np.any(rest <= 0):
        return NotEstimable("without one cluster the denominator is 0")
    return np.asarray((top.sum() - top) / rest)


def jackknife_error(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> float | NotEstimable:
    """Return √((G−1)/G · Σ(θ₍g₎ − θ)²), centred on the estimate."""
    left_out = jackknife(numerator, denominator)
    data = ratio_data(numerator, denominator)
    if isinstance(left_out, NotEstimable):
        return left_out
    if isinstance(data, NotEstimable):
        return data
    clusters = len(left_out)
    spread = float(((left_out - data.fit.theta) ** 2).sum())
    return float(np.sqrt((clusters - 1) / clusters * spread))


def acceleration(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, centre: Centre = "mean"
) -> float | NotEstimable:
    """Return Σ(c − θ₍g₎)³ / (6 (Σ(c − θ₍g₎)²)^1.5), with c the jackknife mean or the estimate."""
    choice(centre, ("mean", "estimate"), "centre")
    left_out = jackknife(numerator, denominator)
    data = ratio_data(numerator, denominator)
    if isinstance(left_out, NotEstimable):
        return left_out
    if isinstance(data, NotEstimable):
        return data
    middle = float(left_out.mean()) if centre == "mean" else data.fit.theta
    gap = (middle - left_out) / max(float(np.abs(middle - left_out).max()), 1 / LARGEST)
    squares = float((gap**2).sum())
    if data.fit.se == 0 or squares == 0:
        return NotEstimable("the clusters show no variation")
    return float((gap**3).sum() / (6 * squares**1.5))


def bca_enumerated(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
    ties: Ties = "half",
    centre: Centre = "mean",
) -> BcaInterval | NotEstimable:
    """Return the exact BCa interval of ΣN/ΣD for 2 … 10 clusters; none where they do not vary."""
    choice(ties, ("half", "strict"), "ties")
    data, speed = ratio_data(numerator, denominator), acceleration(numerator, denominator, centre)
    if isinstance(data, NotEstimable):
        return data
    if isinstance(speed, NotEstimable):
        return speed
    ratios, ways = resampled_ratios(data.numerator, data.denominator)
    if np.isnan(ratios).any():
        return NotEstimable("some resamples have a zero denominator")
    theta, total = data.fit.theta, int(ways.sum())
    tied = np.abs(ratios - theta) <= 1e-12 * max(1.0, abs(theta))
    below = int(ways[(ratios < theta) & ~tied].sum())
    share = (below + (int(ways[tied].sum()) / 2 if ties == "half" else 0)) / total
    if not 0 < share < 1:
        return NotEstimable("no resample lies on one side of the estimate")
    bias = float(ndtri(share))
    shares = [_adjusted(bias, speed, float(ndtri(float(tail)))) for tail in tails(confidence)]
    ends = [inverse_cdf(ratios, ways, Fraction(one)) for one in shares]
    exact = float(level(confidence))
    interval = Interval(theta, ends[0], ends[1], exact, "bca-enumerated", None, data.fit.clusters)
    return BcaInterval(interval, bias, speed, shares[0], shares[1])


def _adjusted(bias: float, speed: float, z: float) -> float:
    return float(ndtr(bias + (bias + z) / (1 - speed * (bias + z))))
