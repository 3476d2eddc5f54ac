"""Intervals for shares: one share (Wilson, exact) and the difference of two paired shares.

Paired notation: b pairs with A right and B wrong, c pairs with A wrong and B right, n pairs; the
difference is B − A = (c − b)/n. Only the score intervals keep their word near the ceiling: with no
discordant pair at all, Wald and every bootstrap say [0, 0], as if equivalence were proven.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv, ndtr, ndtri

from harness.analysis.arrays import choice, count, counts, real, same_length
from harness.analysis.cr2 import fit
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level, level, tails
from harness.analysis.results import Alternative, Interval, TestResult, proper_p
from harness.analysis.tango import tango_bounds, tango_score


def normal_quantile(confidence: Level) -> float:
    """Return z with Φ(z) = 1 − α/2."""
    return float(ndtri(float(tails(confidence)[1])))


def wilson_interval(k: int, n: int, confidence: Level = "0.95") -> Interval | NotEstimable:
    """Return Wilson's score interval of k of n; n counts independent units (Wilson 1927)."""
    hits, total = count(k, "k"), count(n, "n")
    if hits > total:
        raise AnalysisError(f"k: {hits} of {total} is more than all")
    z = normal_quantile(confidence)
    if total == 0:
        return NotEstimable("a share of nothing")
    low, high = wilson_bounds(hits / total, total, z)
    exact = float(level(confidence))
    return Interval(hits / total, low, high, exact, "wilson", None, total)


def wilson_bounds(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's ends for a share of n units; exactly 0 or 1 at the edges."""
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if share == 0 else (centre - half) / scale
    high = 1.0 if share == 1 else (centre + half) / scale
    return low, high


def exact_interval(k: int, n: int, confidence: Level = "0.95") -> Interval | NotEstimable:
    """Return the exact binomial interval of k of n independent units (Clopper and Pearson 1934).

    It keeps its level whatever the share, and is wider than Wilson's for it. At confidence 1 − 2α
    its upper end is the exact one-sided bound at 1 − α: 1 − α^(1/n) where nothing was seen.
    """
    hits, total = count(k, "k"), count(n, "n")
    if hits > total:
        raise AnalysisError(f"k: {hits} of {total} is more than all")
    below = float(tails(confidence)[0])
    if total == 0:
        return NotEstimable("a share of nothing")
    low = float(betaincinv(hits, total - hits + 1, below)) if hits else 0.0
    high = float(betainccinv(hits + 1, total - hits, below)) if hits < total else 1.0
    return Interval(hits / total, low, high, float(level(confidence)), "exact", None, total)


def _cells(b: int, c: int, n: int) -> tuple[int, int, int]:
    lost, won, pairs = count(b, "b"), count(c, "c"), count(n, "n")
    if lost + won > pairs:
        raise AnalysisError(f"n: {pairs} pairs cannot hold {lost} + {won} discordant ones")
    return lost, won, pairs


def tango_interval(b: int, c: int, n: int, confidence: Level = "0.95") -> Interval | NotEstimable:
    """Return Tango's score interval of (c − b)/n, for one pair per cluster (Tango 1998)."""
    lost, won, pairs = _cells(b, c, n)
    z = normal_quantile(confidence)
    if pairs == 0:
        return NotEstimable("no pairs")
    low, high = tango_bounds(lost, won, pairs, z)
    exact = float(level(confidence))
    return Interval((won - lost) / pairs, float(low), float(high), exact, "tango", None, pairs)


def tango_test(
    b: int, c: int, n: int, *, null: float = 0.0, alternative: Alternative = "two-sided"
) -> TestResult | NotEstimable:
    """Return Tango's score test of (c − b)/n = null, dual to `tango_interval`; χ² McNemar at 0."""
    choice(alternative, ("two-sided", "greater", "less"), "alternative")
    lost, won, pairs = _cells(b, c, n)
    difference = real(null, "null")
    if not -1 < difference < 1:
        raise AnalysisError(f"null: {difference} is outside (−1, 1)")
    if pairs == 0:
        return NotEstimable("no pairs")
    score = tango_score(difference, lost, won, pairs)
    if not math.isfinite(score):
        notes = ("no discordant pairs",)
        return TestResult(1.0, None, "tango", alternative, pairs, notes)
    if alternative == "two-sided":
        p = 2 * float(ndtr(-abs(score)))
    else:
        p = float(ndtr(-score if alternative == "greater" else score))
    return TestResult(proper_p(p), score, "tango", alternative, pairs)


def paired_design_effect(
    b: npt.ArrayLike, c: npt.ArrayLike, pairs: npt.ArrayLike
) -> float | NotEstimable:
    """Return φ by which clusters of pairs inflate the variance of the difference.

    Per-cluster counts, shape (G,). φ = max(1, CR1 variance / naive paired variance); where the
    naive variance is 0, the pairs per cluster, as if each cluster were one pair.
    """
    lost, won, sizes = counts(b, "b"), counts(c, "c"), counts(pairs, "pairs")
    clusters = same_length(b=lost, c=won, pairs=sizes)
    if np.any(lost + won > sizes) or np.any(sizes == 0):
        raise AnalysisError("pairs: every cluster needs pairs, at least its discordant ones")
    if clusters < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    total, difference = float(sizes.sum()), float((won - lost).sum())
    naive = (float((lost + won).sum()) - difference**2 / total) / total**2
    if naive <= 0:
        return total / clusters
    found = fit(won - lost, sizes, "CR1")
    return found if isinstance(found, NotEstimable) else max(1.0, found.se**2 / naive)


def tango_effective(
    b: npt.ArrayLike, c: npt.ArrayLike, pairs: npt.ArrayLike, confidence: Level = "0.95"
) -> Interval | NotEstimable:
    """Return Tango's interval on the effective sample: all counts divided by the design effect.

    Per-cluster counts, shape (G,). The scaling is this project's own device, judged by its coverage
    (conservative near the ceiling), so it carries its own name.
    """
    effect = paired_design_effect(b, c, pairs)
    z = normal_quantile(confidence)
    if isinstance(effect, NotEstimable):
        return effect
    sizes = counts(pairs, "pairs")
    lost, won, total = (float(counts(x, "").sum()) / effect for x in (b, c, sizes))
    low, high = tango_bounds(lost, won, total, z)
    exact = float(level(confidence))
    estimate = (won - lost) / total
    return Interval(estimate, float(low), float(high), exact, "tango-effective", None, len(sizes))


def newcombe_interval(
    a: int, b: int, c: int, d: int, confidence: Level = "0.95"
) -> Interval | NotEstimable:
    """Return Newcombe's square-and-add interval of (c − b)/n (1998, method 10, φ corrected).

    a both right, b only A, c only B, d both wrong. For comparison with the literature.
    """
    cells = [count(x, name) for x, name in zip((a, b, c, d), "abcd", strict=True)]
    z, total = normal_quantile(confidence), sum(cells)
    if total == 0:
        return NotEstimable("no pairs")
    both, lost, won, neither = cells
    share_a, share_b = (both + lost) / total, (both + won) / total
    phi = _corrected_phi(both, lost, won, neither)
    low_a, high_a = wilson_bounds(share_a, total, z)
    low_b, high_b = wilson_bounds(share_b, total, z)
    down, up = share_b - low_b, high_a - share_a
    up_b, down_a = high_b - share_b, share_a - low_a
    low = share_b - share_a - math.sqrt(max(0.0, down**2 - 2 * phi * down * up + up**2))
    high = share_b - share_a + math.sqrt(max(0.0, up_b**2 - 2 * phi * up_b * down_a + down_a**2))
    exact = float(level(confidence))
    return Interval(share_b - share_a, low, high, exact, "newcombe", None, total)


def _corrected_phi(both: int, lost: int, won: int, neither: int) -> float:
    margins = (both + lost) * (won + neither) * (both + won) * (lost + neither)
    if margins == 0:
        return 0.0
    product = both * neither - lost * won
    half = (both + lost + won + neither) / 2
    corrected = max(product - half, 0.0) if product > 0 else float(product)
    return corrected / math.sqrt(margins)


def bonett_price_interval(
    b: int, c: int, n: int, confidence: Level = "0.95"
) -> Interval | NotEstimable:
    """Return Bonett & Price's Wald interval (2012), one pair added to each discordant cell."""
    lost, won, pairs = _cells(b, c, n)
    if pairs == 0:
        return NotEstimable("no pairs")
    low, high = _wald_ends(lost + 1, won + 1, pairs + 2, confidence)
    exact = float(level(confidence))
    return Interval((won - lost) / pairs, low, high, exact, "bonett-price", None, pairs)


def wald_interval(b: int, c: int, n: int, confidence: Level = "0.95") -> Interval | NotEstimable:
    """Return the Wald interval, for comparison only: it has no width without discordant pairs."""
    lost, won, pairs = _cells(b, c, n)
    if pairs == 0:
        return NotEstimable("no pairs")
    low, high = _wald_ends(lost, won, pairs, confidence)
    exact = float(level(confidence))
    return Interval((won - lost) / pairs, low, high, exact, "wald", None, pairs)


def _wald_ends(lost: int, won: int, pairs: int, confidence: Level) -> tuple[float, float]:
    centre = (won - lost) / pairs
    spread = max(0.0, (lost + won) / pairs - centre**2)
    half = normal_quantile(confidence) * math.sqrt(spread / pairs)
    return max(-1.0, centre - half), min(1.0, centre + half)
