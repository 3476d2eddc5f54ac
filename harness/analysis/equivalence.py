"""Equivalence and non-inferiority: a margin, two one-sided tests, and a control that must fail.

"No difference" without a margin could never be held. Equivalence at α is an interval at level 1 −
2α inside (−δ, δ) (Schuirmann 1987); non-inferiority at one-sided α is the same interval inside (−δ,
∞). Both ends are open: touching the margin decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy.typing as npt

from harness.analysis.arrays import real
from harness.analysis.cr2 import cr2_interval, cr2_test
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level, level
from harness.analysis.results import Interval
from harness.analysis.verdicts import Region, Verdict, decide


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests and the interval that is dual to them."""

    p_lower: float | None
    """That the quantity is above the lower margin; None for an open end."""
    p_upper: float | None
    p: float
    interval: Interval
    """At level 1 − 2α."""
    verdict: Verdict


def equivalence_region(margin: float) -> Region:
    """Return (−δ, δ) around no difference; δ > 0."""
    return Region(-_margin(margin), _margin(margin), low_closed=False, high_closed=False)


def non_inferiority_region(margin: float) -> Region:
    """Return (−δ, ∞) for differences where more is better; δ > 0."""
    return Region(-_margin(margin), None, low_closed=False)


def _margin(margin: float) -> float:
    value = real(margin, "margin")
    if value <= 0:
        raise AnalysisError(
            f"margin: {value} allows no difference at all, so nothing could hold it"
        )
    return value


def two_sided_level(alpha: Level) -> str:
    """Return 1 − 2α as a decimal: the level whose interval is dual to one-sided tests at α.

    >>> two_sided_level("0.05")
    '0.90'
    """
    exact = level(alpha, "alpha")
    if exact >= level("0.5"):
        raise AnalysisError(f"alpha: {alpha} is not below 0.5")
    return str(1 - 2 * exact)


def equivalence(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    region: Region,
    *,
    alpha: Level = "0.05",
) -> Equivalence | NotEstimable:
    """Return the tests of ΣN/ΣD against an equivalence or non-inferiority region, by CR2.

    Per-cluster sums of shape (G,); with D = 1 the paired t version. Not estimable where the
    clusters do not vary: no data without variation prove equivalence.
    """
    interval = cr2_interval(numerator, denominator, confidence=two_sided_level(alpha))
    if isinstance(interval, NotEstimable):
        return interval
    if interval.degenerate:
        return NotEstimable("the clusters show no variation")
    lower = _one_sided(numerator, denominator, region.low, greater=True)
    upper = _one_sided(numerator, denominator, region.high, greater=False)
    p = max(one for one in (lower, upper) if one is not None)
    verdict = decide(interval, region, no_effect=0.0)
    return Equivalence(lower, upper, p, interval, verdict)


def _one_sided(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, end: float | None, *, greater: bool
) -> float | None:
    if end is None:
        return None
    test = cr2_test(numerator, denominator, null=end, alternative="greater" if greater else "less")
    return None if isinstance(test, NotEstimable) else test.p


def with_control(verdict: Verdict, control: Verdict) -> Verdict:
    """Return the verdict, void unless the known-bad control failed the same prediction.

    A quality test that a known-bad arm passes is blind, and a pass of it says nothing.
    """
    if verdict.word == "void" or control.word == "failed":
        return verdict
    reason = f"insensitive: the control that must fail is {control.word}"
    return replace(verdict, word="void", by_interval="void", by_point="void", reasons=(reason,))
