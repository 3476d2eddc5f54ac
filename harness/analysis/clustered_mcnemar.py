"""McNemar tests for several pairs per cluster, from the literature, χ² on one degree of freedom.

Per-cluster counts: a both right, b only A right, c only B right, d both wrong; n = a + b + c + d.

* Eliasziw & Donner 1991: McNemar over a design effect from the intraclass correlation.
* Obuchowski 1998: (K−1)/K · (Σ(b−c))² / Σ(b−c)².
* Durkalski et al. 2003: (Σ(b−c)/n)² / Σ((b−c)/n)².
* Yang, Sun & Hardin 2010: as Obuchowski, with the mean of the null and the centred variance.

`sign_flip` on per-cluster differences is what decides; these are for comparison with the
literature.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from harness.analysis.arrays import Floats, choice, counts, same_length
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.results import TestResult, proper_p

ClusteredMethod = Literal["obuchowski", "durkalski", "yang", "eliasziw-donner", "naive"]
CLUSTERED_METHODS: tuple[str, ...] = (
    "obuchowski",
    "durkalski",
    "yang",
    "eliasziw-donner",
    "naive",
)


def clustered_mcnemar(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    d: npt.ArrayLike,
    method: ClusteredMethod,
) -> TestResult | NotEstimable:
    """Return the named test from per-cluster counts of shape (K,).

    No discordant pair: p = 1 without a statistic. "naive" pools the pairs and says so in its notes.
    """
    choice(method, CLUSTERED_METHODS, "method")
    cells = [
        counts(x, name).astype(np.float64) for x, name in zip((a, b, c, d), "abcd", strict=True)
    ]
    clusters = same_length(**dict(zip("abcd", cells, strict=True)))
    table = np.stack(cells)
    if np.any(table.sum(axis=0) == 0):
        raise AnalysisError("every cluster needs at least one pair")
    if clusters < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    if not table[1:3].any():
        return TestResult(1.0, None, method, "two-sided", clusters, ("no discordant pairs",))
    statistic = _STATISTICS[method](table)
    if isinstance(statistic, NotEstimable):
        return statistic
    notes = ("naive: treats pairs of one cluster as independent",) if method == "naive" else ()
    p = proper_p(float(chdtrc(1, statistic)))
    return TestResult(p, statistic, method, "two-sided", clusters, notes)


def _naive(table: Floats) -> float:
    lost, won = table[1].sum(), table[2].sum()
    return float((lost - won) ** 2 / (lost + won))


def _ratio(top: float, bottom: float) -> float | NotEstimable:
    """Return top/bottom; 0/0 means that every cluster agrees with the null."""
    if bottom > 0:
        return top / bottom
    return 0.0 if top == 0 else NotEstimable("the clusters show no variation")


def _obuchowski(table: Floats) -> float | NotEstimable:
    gap, clusters = table[1] - table[2], table.shape[1]
    return _ratio((clusters - 1) * float(gap.sum()) ** 2, clusters * float((gap**2).sum()))


def _durkalski(table: Floats) -> float | NotEstimable:
    gap = (table[1] - table[2]) / table.sum(axis=0)
    return _ratio(float(gap.sum()) ** 2, float((gap**2).sum()))


def _yang(table: Floats) -> float | NotEstimable:
    gap, sizes, clusters = table[1] - table[2], table.sum(axis=0), table.shape[1]
    centred = gap - sizes * gap.sum() / sizes.sum()
    spread = float(((centred**2).sum() + (gap**2).sum()) / 2)
    return _ratio((clusters - 1) * float(gap.sum()) ** 2, clusters * spread)


def _eliasziw_donner(table: Floats) -> float | NotEstimable:
    discordant = table[1] + table[2]
    affected = int(np.count_nonzero(discordant))
    if affected < 2:
        return NotEstimable("fewer than two clusters have discordant pairs")
    correlation = _discordant_correlation(table)
    if isinstance(correlation, NotEstimable):
        return correlation
    mean = float(discordant.sum()) / affected
    spread = float(((discordant[discordant > 0] - mean) ** 2).sum())
    typical = mean - spread / (affected * (affected - 1) * mean)
    effect = 1 + (typical + affected * (mean - typical) - 1) * correlation
    return (
        _naive(table) / effect if effect > 0 else NotEstimable("the design effect is not positive")
    )


def _discordant_correlation(table: Floats) -> float | NotEstimable:
    """Return the intraclass correlation among discordant pairs, from pooled mean squares."""
    sizes, clusters = table.sum(axis=0), table.shape[1]
    mean = float(sizes.mean())
    if mean <= 1:
        return 0.0
    share = table.sum(axis=1) / sizes.sum()
    typical = mean - float(((sizes - mean) ** 2).sum()) / (clusters * (clusters - 1) * mean)
    between = float(((table - sizes * share[:, None]) ** 2 / sizes).sum()) / clusters
    within = float((table * (sizes - table) / sizes).sum()) / (clusters * (mean - 1))
    bottom = between + (typical - 1) * within
    if bottom <= 0:
        return NotEstimable("the intraclass correlation is 0/0")
    pooled = (between - within) / bottom
    discordant = float(share[1] + share[2])
    scaled = pooled + discordant * (1 - pooled)
    return pooled / scaled if scaled > 0 else NotEstimable("the intraclass correlation is 0/0")


_STATISTICS = {
    "naive": _naive,
    "obuchowski": _obuchowski,
    "durkalski": _durkalski,
    "yang": _yang,
    "eliasziw-donner": _eliasziw_donner,
}
