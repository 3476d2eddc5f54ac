"""Does a fitted model predict what it has not seen? On a frozen grid, against a naive rival.

For every condition of the grid the quantity is log(predicted / measured). Its error adds the
model's own (fit error) to that of the measurement over clusters, with Welch–Satterthwaite degrees
of freedom; the intervals are simultaneous (Bonferroni over the grid). The claim "within 3 %" is
held only if every interval lies inside the band and the model is closer than the naive one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from harness.analysis.arrays import above_zero, floats, real
from harness.analysis.cr2 import fit
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.multiplicity import bonferroni_level
from harness.analysis.precision import Level, level, tails
from harness.analysis.results import Interval
from harness.analysis.verdicts import Region, Verdict, Word, decide

_MANY = 1e9
"""Degrees of freedom that make a t quantile normal."""


@dataclass(frozen=True)
class Condition:
    """One point of the frozen grid."""

    name: str
    measured: npt.ArrayLike
    """Positive values, one per cluster (repeat, text, block)."""
    predicted: float
    """By the model, fitted without this condition."""
    predicted_log_error: float
    """Standard error of log(predicted) from the fit; 0 only for a model without fitted numbers."""
    naive: float
    """What the named rival predicts."""


@dataclass(frozen=True)
class ConditionCheck:
    """One condition decided."""

    name: str
    ratio: Interval
    """predicted / measured, simultaneous."""
    verdict: Verdict


@dataclass(frozen=True)
class ModelCheck:
    """A model's claim decided over its grid."""

    word: Word
    reasons: tuple[str, ...]
    conditions: tuple[ConditionCheck, ...]
    worst: str
    """The condition furthest from 1."""
    naive: str
    advantage: Interval
    """Mean over conditions of |log naive/measured| − |log predicted/measured|; better above 0."""
    fitted_on: str
    """Where the model's numbers come from."""


def model_check(
    conditions: Sequence[Condition],
    *,
    tolerance: float,
    naive: str,
    fitted_on: str,
    confidence: Level = "0.95",
) -> ModelCheck | NotEstimable:
    """Return whether predicted/measured lies within [1/(1 + tolerance), 1 + tolerance] everywhere.

    Held: every simultaneous interval inside, and the advantage over `naive` (its name) above 0.
    Failed: an interval wholly outside, or the advantage wholly at or below 0. Else inconclusive.
    """
    band = real(tolerance, "tolerance")
    if not conditions or band <= 0 or not naive or not fitted_on:
        raise AnalysisError("needs conditions, a tolerance above 0, and both sources by name")
    names = [condition.name for condition in conditions]
    if len(set(names)) < len(names):
        raise AnalysisError("conditions: a name occurs twice")
    region = Region(1 / (1 + band), 1 + band)
    joint = bonferroni_level(level(confidence), len(conditions))
    errors, checks = [], []
    for condition in conditions:
        found = log_error(condition)
        if isinstance(found, NotEstimable):
            return NotEstimable(f"{condition.name}: {found.reason}")
        interval = _interval(found.gap, found.se, found.df, found.clusters, joint)
        ratio = interval.exponentiated()
        if isinstance(ratio, NotEstimable):
            return NotEstimable(f"{condition.name}: {ratio.reason}")
        errors.append(found)
        checks.append(ConditionCheck(condition.name, ratio, decide(ratio, region)))
    advantage = _advantage(errors, confidence)
    word, reasons = _decided(checks, advantage, naive)
    worst = max(checks, key=lambda check: abs(math.log(check.ratio.estimate))).name
    return ModelCheck(word, reasons, tuple(checks), worst, naive, advantage, fitted_on)


@dataclass(frozen=True)
class LogError:
    """log(predicted / measured) of one condition with its error."""

    gap: float
    naive_gap: float
    """log(naive / measured)."""
    se: float
    """Of the gap: fit and measurement together."""
    df: float
    measured_se: float
    fit_se: float
    clusters: int


def log_error(condition: Condition) -> LogError | NotEstimable:
    """Return how far a prediction is from what was measured, on the log scale."""
    values = floats(condition.measured, f"{condition.name}: measured")
    if np.any(values <= 0):
        raise AnalysisError(f"{condition.name}: measured needs values above 0")
    predicted = above_zero(condition.predicted, f"{condition.name}: predicted")
    naive = above_zero(condition.naive, f"{condition.name}: naive")
    error = real(condition.predicted_log_error, f"{condition.name}: predicted_log_error")
    if error < 0:
        raise AnalysisError(f"{condition.name}: the error of the prediction is negative")
    found = fit(np.log(values), np.ones_like(values))
    if isinstance(found, NotEstimable):
        return found
    variance = error**2 + found.se**2
    inflation = variance / found.se**2 if found.se > 1e-100 else math.inf
    df = min(found.df * inflation * inflation, _MANY) if variance > 0 else found.df
    return LogError(
        math.log(predicted) - found.theta,
        math.log(naive) - found.theta,
        math.sqrt(variance),
        df,
        found.se,
        error,
        found.clusters,
    )


def _interval(centre: float, se: float, df: float, clusters: int, confidence: Level) -> Interval:
    half = float(stdtrit(df, float(tails(confidence)[1]))) * se
    exact = float(level(confidence))
    return Interval(centre, centre - half, centre + half, exact, "welch", df, clusters)


def _advantage(errors: Sequence[LogError], confidence: Level) -> Interval:
    """Return the mean of |naive gap| − |gap| over the grid, which is fixed and so adds no variance.

    A measurement moves both distances, at worst twice its own error; the fit moves all conditions
    together, so its errors add up.
    """
    size = len(errors)
    gain = sum(abs(one.naive_gap) - abs(one.gap) for one in errors) / size
    measured = math.sqrt(sum((2 * one.measured_se) ** 2 for one in errors)) / size
    se = math.hypot(measured, sum(one.fit_se for one in errors) / size)
    fewest = min(one.clusters for one in errors)
    return _interval(gain, se, fewest - 1, fewest, confidence)


def _decided(
    checks: Sequence[ConditionCheck], advantage: Interval, naive: str
) -> tuple[Word, tuple[str, ...]]:
    words = {check.verdict.word for check in checks}
    void = [f"{check.name}: {check.verdict.sentence}" for check in checks if check.verdict.reasons]
    if void:
        return "void", tuple(void)
    outside = tuple(
        f"{check.name}: {check.verdict.sentence}"
        for check in checks
        if check.verdict.word == "failed"
    )
    if outside:
        return "failed", outside
    if advantage.high <= 0:
        return "failed", (f"not closer than {naive}",)
    if words == {"held"} and advantage.low > 0:
        return "held", ()
    open_ = [check.name for check in checks if check.verdict.word == "inconclusive"]
    reasons = [f"undecided at {', '.join(open_)}"] if open_ else []
    if advantage.low <= 0:
        reasons.append(f"not clearly closer than {naive}")
    return "inconclusive", tuple(reasons)
