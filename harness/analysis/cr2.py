"""Cluster-robust intervals from per-cluster sums: CR2 with Satterthwaite degrees of freedom.

For θ = ΣN/ΣD with residuals r = N − θD and leverages h = D/ΣD (Bell & McCaffrey 2002; Pustejovsky &
Tipton 2018; equal to R clubSandwich):

    V  = Σ r²/(1 − h) / (ΣD)²
    df = (tr Γ)² / ‖Γ‖²,  Γ = diag(aD) − uuᵀ,  a = 1/(1 − h),  u = √a·D/√ΣD

With D = 1 this is the one-sample t interval on G − 1 degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from harness.analysis.arrays import Floats, choice, floats, real, same_length
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level, level, tails
from harness.analysis.results import Alternative, Interval, Side, TestResult, proper_p

Kind = Literal["CR0", "CR1", "CR2", "CR3"]
_NOISE = 1e-13
"""Residuals below this share of the data's size are rounding, not variation."""


@dataclass(frozen=True)
class Moments:
    """θ, its standard error and degrees of freedom; arrays over the leading axes of the sums."""

    theta: npt.NDArray[Any]
    se: npt.NDArray[Any]
    df: npt.NDArray[Any]
    top_share: npt.NDArray[Any]
    """Largest share of Σr² from one cluster; NaN where there is none (never passed on)."""


def moments(numerator: Floats, denominator: Floats, kind: Kind = "CR2") -> Moments:
    """Return the moments of ΣN/ΣD over the last axis (clusters), without checks."""
    with np.errstate(all="ignore"):
        total = denominator.sum(axis=-1, keepdims=True)
        theta = numerator.sum(axis=-1, keepdims=True) / total
        residual = numerator - theta * denominator
        size = np.maximum(np.abs(numerator), np.abs(theta * denominator)).max(-1, keepdims=True)
        residual = np.where(np.abs(residual) <= _NOISE * size, 0.0, residual)
        leverage = denominator / total
        inflate = _inflation(kind, leverage)
        squares = residual**2
        variance = (squares * inflate).sum(-1) / total[..., 0] ** 2
        top = squares.max(-1) / squares.sum(-1)
        df = _satterthwaite(denominator, total)
    return Moments(theta[..., 0], np.sqrt(variance), df, top)


def _inflation(kind: Kind, leverage: Floats) -> Floats:
    clusters = leverage.shape[-1]
    if kind == "CR0":
        return np.ones_like(leverage)
    if kind == "CR1":
        return np.full_like(leverage, clusters / (clusters - 1))
    return (1 - leverage) ** (-1.0 if kind == "CR2" else -2.0)


def _satterthwaite(denominator: Floats, total: Floats) -> npt.NDArray[Any]:
    weight = denominator / total
    diagonal = weight / (1 - weight)
    u_squared = weight**2 / (1 - weight)
    sum_u = u_squared.sum(-1)
    trace = diagonal.sum(-1) - sum_u
    norm = (diagonal**2).sum(-1) - 2 * (diagonal * u_squared).sum(-1) + sum_u**2
    return np.asarray(trace**2 / norm)


@dataclass(frozen=True)
class Fit:
    """θ of one checked set of sums, with its cluster-robust error."""

    theta: float
    se: float
    df: float
    clusters: int
    top_share: float | None


def fit(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, kind: Kind = "CR2"
) -> Fit | NotEstimable:
    """Return θ = ΣN/ΣD with its cluster-robust error, from per-cluster sums of shape (G,).

    Not estimable: fewer than two clusters, an empty denominator, or one cluster that holds all of
    it. Raises `AnalysisError` for sums that are not finite or a negative denominator.
    """
    top, bottom = floats(numerator, "numerator"), floats(denominator, "denominator")
    clusters = same_length(numerator=top, denominator=bottom)
    choice(kind, ("CR0", "CR1", "CR2", "CR3"), "kind")
    if np.any(bottom < 0):
        raise AnalysisError("denominator: needs sums of at least 0")
    if clusters < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    if not np.any(bottom > 0):
        return NotEstimable("the denominator is 0 in every cluster")
    if np.max(bottom) >= bottom.sum() * (1 - 1e-12):
        return NotEstimable("one cluster holds the whole denominator")
    found = moments(top, bottom, kind)
    theta, se, df = float(found.theta), float(found.se), float(found.df)
    if not all(math.isfinite(x) for x in (theta, se, df)) or df <= 0:
        return NotEstimable("the sums overflow double precision")
    share = float(found.top_share)
    return Fit(theta, se, df, clusters, share if math.isfinite(share) else None)


def cluster_se(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, *, kind: Kind = "CR2"
) -> float | NotEstimable:
    """Return the standard error of ΣN/ΣD by the named estimator, to compare with other tools."""
    found = fit(numerator, denominator, kind)
    return found if isinstance(found, NotEstimable) else found.se


def cr2_interval(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
    log: bool = False,
    side: Side = "both",
) -> Interval | NotEstimable:
    """Return the CR2–Satterthwaite interval of ΣN/ΣD from per-cluster sums of shape (G,).

    `log` forms the interval on log θ and returns it on the ratio scale (both ends positive). `side`
    "lower" or "upper" gives a one-sided bound at the same confidence, with the other end open.
    """
    choice(side, ("both", "lower", "upper"), "side")
    found = fit(numerator, denominator)
    return found if isinstance(found, NotEstimable) else interval_of(found, confidence, log, side)


def interval_of(
    found: Fit, confidence: Level, log: bool = False, side: Side = "both", name: str = "cr2"
) -> Interval | NotEstimable:
    """Return the t interval of a fit; not estimable for the log of a number of 0 or less."""
    tail = tails(confidence)[1] if side == "both" else level(confidence)
    half = float(stdtrit(found.df, float(tail))) * found.se
    if log:
        if found.theta <= 0:
            return NotEstimable("a ratio of 0 or less has no logarithm")
        half = half / found.theta
        with np.errstate(over="ignore"):
            low, high = found.theta * float(np.exp(-half)), found.theta * float(np.exp(half))
    else:
        low, high = found.theta - half, found.theta + half
    if not (math.isfinite(low) and math.isfinite(high)):
        return NotEstimable("the interval overflows double precision")
    if side == "upper":
        low = -math.inf
    if side == "lower":
        high = math.inf
    method = f"{name}-log" if log else name
    exact = float(level(confidence))
    return Interval(found.theta, low, high, exact, method, found.df, found.clusters)


def cr2_test(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    null: float = 0.0,
    alternative: Alternative = "two-sided",
    log: bool = False,
) -> TestResult | NotEstimable:
    """Return the t test of ΣN/ΣD = null that is dual to `cr2_interval`.

    Not estimable where the clusters do not vary but differ from `null`: p = 0 would be a claim
    that the data cannot support.
    """
    choice(alternative, ("two-sided", "greater", "less"), "alternative")
    null = real(null, "null")
    found = fit(numerator, denominator)
    if isinstance(found, NotEstimable):
        return found
    if log and (found.theta <= 0 or null <= 0):
        return NotEstimable("a ratio of 0 or less has no logarithm")
    gap = math.log(found.theta / null) if log else found.theta - null
    se = found.se / found.theta if log else found.se
    if se == 0:
        if abs(gap) <= _NOISE * max(1.0, abs(null)):
            return TestResult(1.0, None, "cr2", alternative, found.clusters, ("no variation",))
        return NotEstimable("the clusters show no variation")
    statistic = gap / se
    if not math.isfinite(statistic):
        return NotEstimable("the statistic overflows double precision")
    return TestResult(
        t_p_value(statistic, found.df, alternative),
        statistic,
        "cr2-log" if log else "cr2",
        alternative,
        found.clusters,
    )


def t_p_value(statistic: float, df: float, alternative: Alternative) -> float:
    """Return the p-value of a t statistic."""
    if alternative == "two-sided":
        return proper_p(2 * float(stdtr(df, -abs(statistic))))
    return proper_p(float(stdtr(df, -statistic if alternative == "greater" else statistic)))
