"""McNemar's test for one pair per cluster: exact, mid-p and χ², with the edges done right.

b pairs have A right and B wrong, c the reverse; "greater" means B better (c > b). No discordant
pair means p = 1 and no statistic; at b = c the exact p is capped at 1 and the continuity correction
vanishes.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, chdtrc, gammaln

from harness.analysis.arrays import Floats, Integers, binary, choice, count, same_length
from harness.analysis.clusters import Clusters, clusters_of
from harness.analysis.errors import AnalysisError
from harness.analysis.labels import Labels
from harness.analysis.precision import Level, level
from harness.analysis.results import Alternative, TestResult, proper_p

Method = Literal["exact", "midp", "chi2", "chi2-corrected"]
METHODS: tuple[str, ...] = ("exact", "midp", "chi2", "chi2-corrected")
TieRule = Literal["double", "fagerland"]


def mcnemar(
    b: int,
    c: int,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    *,
    tie_rule: TieRule = "double",
) -> TestResult:
    """Return McNemar's test of b against c (McNemar 1947; mid-p: Fagerland, Lydersen & Laake 2013).

    `tie_rule` settles two-sided mid-p at b = c: "double" gives 1, "fagerland" 1 − P(X = b)/2.
    χ² tests are two-sided only.
    """
    choice(method, METHODS, "method")
    choice(alternative, ("two-sided", "greater", "less"), "alternative")
    choice(tie_rule, ("double", "fagerland"), "tie_rule")
    lost, won = count(b, "b"), count(c, "c")
    if method.startswith("chi2") and alternative != "two-sided":
        raise AnalysisError("alternative: a χ² test is two-sided; use exact or midp")
    notes = _notes(lost + won, method)
    if lost + won == 0:
        return TestResult(1.0, None, method, alternative, 0, notes)
    if method.startswith("chi2"):
        gap = abs(lost - won)
        statistic = max(gap - (method == "chi2-corrected"), 0) ** 2 / (lost + won)
        p = proper_p(float(chdtrc(1, statistic)))
        return TestResult(p, statistic, method, alternative, lost + won, notes)
    p = proper_p(float(discordance_p(lost, won, method, alternative)))
    if method == "midp" and tie_rule == "fagerland" and lost == won and alternative == "two-sided":
        p = 1 - float(_point(lost, 2 * lost)) / 2
    return TestResult(p, None, method, alternative, lost + won, notes)


def discordance_p(b: npt.ArrayLike, c: npt.ArrayLike, method: str, alternative: str) -> Floats:
    """Return exact or mid-p values for arrays of counts (1 where nothing is discordant)."""
    lost, won = np.asarray(b, dtype=np.int64), np.asarray(c, dtype=np.int64)
    total = lost + won
    if alternative == "two-sided":
        fewer = np.minimum(lost, won)
        tail = _tail(fewer, total, method)
        return np.where(total == 0, 1.0, np.minimum(1.0, 2 * tail))
    reached = lost if alternative == "greater" else won
    return np.where(total == 0, 1.0, np.minimum(1.0, _tail(reached, total, method)))


def _tail(k: Integers, n: Integers, method: str) -> Floats:
    """Return P(X ≤ k) for X ~ Bin(n, ½), less half the point probability for mid-p."""
    below = betainc((n - k).astype(np.float64), k + 1.0, 0.5)
    below = np.where(k >= n, 1.0, below)
    half = _point(k, n) / 2 if method == "midp" else 0.0
    return np.asarray(below - half, dtype=np.float64)


def _point(k: npt.ArrayLike, n: npt.ArrayLike) -> Floats:
    at, total = np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64)
    logs = gammaln(total + 1) - gammaln(at + 1) - gammaln(total - at + 1) - total * math.log(2)
    return np.asarray(np.exp(logs), dtype=np.float64)


def min_discordant(alpha: Level = "0.05") -> int:
    """Return the fewest discordant pairs with which the exact test can reach p ≤ α."""
    limit = level(alpha, "alpha")
    pairs = 1
    while 2 / 2**pairs > limit:
        pairs += 1
    return pairs


def _notes(discordant: int, method: str) -> tuple[str, ...]:
    if discordant == 0:
        return ("no discordant pairs",)
    if method == "exact" and discordant < min_discordant():
        return (f"cannot decide: {discordant} discordant pairs never reach p ≤ 0.05",)
    return ()


def mcnemar_rows(
    cluster: Labels | Clusters,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
) -> TestResult:
    """Return McNemar's test on rows of right/wrong answers, one pair per cluster.

    With 20 pairs per cluster the naive test rejects a true null 20 % of the time at a nominal 5 %.
    Use `sign_flip` or `clustered_mcnemar`; the naive test is there under its own name.
    """
    found, right_a, right_b = clusters_of(cluster), binary(a, "a"), binary(b, "b")
    same_length(cluster=found.codes, a=right_a, b=right_b)
    if int(found.sizes.max()) > 1:
        worst = found.labels[int(found.sizes.argmax())]
        raise AnalysisError(
            f"cluster {worst!r} has {int(found.sizes.max())} pairs; McNemar needs one per cluster, "
            "use sign_flip or clustered_mcnemar"
        )
    lost = int(np.count_nonzero(right_a & ~right_b))
    won = int(np.count_nonzero(right_b & ~right_a))
    return mcnemar(lost, won, method, alternative)


def sign_evalue(b: int, c: int) -> float:
    """Return the e-value 2ⁿ·b!·c!/(n+1)! of a sign test (uniform mixture against ½), n = b + c.

    A monitoring read-out: it may stop a run for harm, never for success.
    """
    lost, won = count(b, "b"), count(c, "c")
    total = lost + won
    choose = gammaln(total + 1) - gammaln(lost + 1) - gammaln(won + 1)
    exponent = total * math.log(2) - float(choose) - math.log(total + 1)
    return math.exp(min(exponent, 700.0))
