"""What a plan can find before it runs: power, sample sizes and the smallest margin in reach."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, nctdtr, ndtri, stdtrit

from harness.analysis.arrays import above_zero, choice, counts, real, whole
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.mcnemar import discordance_p
from harness.analysis.precision import Level, level

MAX_POWER_PAIRS = 20_000
MAX_SAMPLE_ROOT = 1e9
_NEGLIGIBLE = 1e-13


def mcnemar_power(
    n: int, p10: float, p01: float, *, alpha: Level = "0.05", method: str = "exact"
) -> float:
    """Return the chance that the two-sided exact or mid-p test rejects, one pair per cluster.

    p10: chance that only A is right; p01: that only B is. Enumerates the trinomial law of (b, c);
    with p10 = p01 it is the size of the test.
    """
    choice(method, ("exact", "midp"), "method")
    lost, won = real(p10, "p10"), real(p01, "p01")
    n = whole(n, "n", 1, MAX_POWER_PAIRS)
    if min(lost, won) < 0 or lost + won > 1:
        raise AnalysisError("p10, p01: needs chances that add up to at most 1")
    limit = float(level(alpha, "alpha"))
    discordant = lost + won
    if discordant == 0:
        return 0.0
    power = 0.0
    for total in range(1, n + 1):
        weight = float(_binomial(total, n, discordant))
        if weight < _NEGLIGIBLE:
            continue
        b = np.arange(total + 1)
        rejects = discordance_p(b, total - b, method, "two-sided") <= limit
        power += weight * float(_binomial(b[rejects], total, lost / discordant).sum())
    return min(1.0, power)


def _binomial(k: npt.ArrayLike, n: int, p: float) -> npt.NDArray[np.float64]:
    """Return P(X = k) for X ~ Bin(n, p), by logarithms of factorials."""
    at = np.asarray(k, dtype=np.float64)
    if p in (0.0, 1.0):
        return np.asarray(at == n * p, dtype=np.float64)
    logs = gammaln(n + 1) - gammaln(at + 1) - gammaln(n - at + 1)
    return np.asarray(np.exp(logs + at * math.log(p) + (n - at) * math.log1p(-p)))


def _z(share: Fraction | float) -> float:
    return float(ndtri(float(share)))


def _two_sided_z(alpha: Level) -> float:
    return _z(1 - Fraction(level(alpha, "alpha")) / 2)


def question_sample_size(
    between_variance: float,
    effect: float,
    *,
    within_a: float = 0.0,
    within_b: float = 0.0,
    alpha: Level = "0.05",
    power: Level = "0.8",
) -> int:
    """Return the questions needed to see a mean paired difference `effect` (Miller 2024, eq. 9).

    `between_variance` ω² of per-question differences; `within_a` σ²_A/K_A and `within_b` are what
    repeats leave of the sampling noise.
    """
    parts = (real(x, "variance") for x in (between_variance, within_a, within_b))
    variance, size = above_zero(sum(parts), "variance"), above_zero(effect, "effect")
    z = _two_sided_z(alpha) + _z(float(level(power, "power")))
    return _rounded_up(z * math.sqrt(variance) / size)


def _rounded_up(root: float) -> int:
    """Return ⌈root²⌉, forgiving the last bits; refuses a size that nobody could run."""
    if root > MAX_SAMPLE_ROOT:
        raise AnalysisError("the effect is too small: more than 10^18 tasks")
    return max(1, math.ceil(root**2 - 1e-9))


def _one_sided_z(alpha: Level, power: Level) -> float:
    exact = 1 - Fraction(level(alpha, "alpha"))
    return _z(exact) + _z(float(level(power, "power")))


def non_inferiority_sample_size(
    discordance: float, margin: float, *, alpha: Level = "0.025", power: Level = "0.9"
) -> int:
    """Return the tasks that show a fall in accuracy below `margin` where there is no fall.

    (z_{1−α} + z_power)² ψ/δ² with ψ the share of discordant pairs and α one-sided.
    """
    share, delta = _share(discordance), above_zero(margin, "margin")
    return _rounded_up(_one_sided_z(alpha, power) * math.sqrt(share) / delta)


def _share(discordance: float) -> float:
    share = above_zero(discordance, "discordance")
    if share > 1:
        raise AnalysisError(f"discordance: {share} is more than all")
    return share


def detectable_margin(
    discordance: float, n: int, *, alpha: Level = "0.025", power: Level = "0.9"
) -> float:
    """Return the smallest non-inferiority margin that n tasks can show, as a share of tasks."""
    tasks = whole(n, "n", 1, 10**15)
    return _one_sided_z(alpha, power) * math.sqrt(_share(discordance) / tasks)


def design_effect(sizes: npt.ArrayLike, icc: float) -> float:
    """Return 1 + (Σn²/Σn − 1)·ICC, by which unequal clusters inflate a variance."""
    each, correlation = counts(sizes, "sizes"), real(icc, "icc")
    if int(each.sum()) == 0 or not -1 <= correlation <= 1:
        raise AnalysisError("needs clusters with rows and an ICC in [−1, 1]")
    return 1 + (float((each**2).sum()) / float(each.sum()) - 1) * correlation


def mean_power(
    clusters: int, effect: float, sd: float, *, alpha: Level = "0.05"
) -> float | NotEstimable:
    """Return the power of the two-sided t test on one number per cluster (noncentral t).

    `effect` and `sd` (between clusters) on the scale of the estimand: logs for a log ratio.
    """
    spread, shift = above_zero(sd, "sd"), real(effect, "effect")
    if whole(clusters, "clusters", 0, 10**9) < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    df = clusters - 1
    critical = float(stdtrit(df, float(1 - Fraction(level(alpha, "alpha")) / 2)))
    noncentral = min(abs(shift) / spread * math.sqrt(clusters), 1e3)
    if noncentral > 37:
        return 1.0
    above = 1 - float(nctdtr(df, noncentral, critical))
    below = float(nctdtr(df, noncentral, -critical))
    return min(1.0, max(0.0, above + below))


def detectable_effect(
    clusters: int, sd: float, *, alpha: Level = "0.05", power: Level = "0.9"
) -> float | NotEstimable:
    """Return the smallest effect that the two-sided t test finds with this power, by bisection."""
    wanted, spread = float(level(power, "power")), above_zero(sd, "sd")
    reach = 37 * spread / math.sqrt(max(whole(clusters, "clusters", 0, 10**9), 1))
    top = mean_power(clusters, reach, spread, alpha=alpha)
    if isinstance(top, NotEstimable):
        return top
    if top < wanted:
        return NotEstimable(f"{clusters} clusters never reach this power at this level")
    low, high = 0.0, reach
    for _ in range(60):
        middle = (low + high) / 2
        reached = mean_power(clusters, middle, spread, alpha=alpha)
        if isinstance(reached, NotEstimable):
            return reached
        low, high = (low, middle) if reached >= wanted else (middle, high)
    return high
