"""Bootstrap intervals of ΣN/ΣD over clusters, by the frozen resampling plan.

They stand beside the CR2 interval; a percentile interval may decide only with 50 planned clusters
or more (see `methods`). For ten clusters or fewer enumerate instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import LARGEST, Floats, floats, peaks, same_length, whole
from harness.analysis.cr2 import Fit, fit
from harness.analysis.errors import NotEstimable
from harness.analysis.intervals_of_draws import end_errors, rank_ends
from harness.analysis.precision import Level, level
from harness.analysis.resampling import DEFAULT_RESAMPLES, MAX_RESAMPLES, resampled_sums
from harness.analysis.results import Interval

MAX_UNDEFINED = 0.001
"""Above this share of resamples without a value, nothing is estimable."""


@dataclass(frozen=True)
class Bootstrap:
    """A resampling interval with what its draws were worth."""

    interval: Interval
    resamples: int
    """0 where all resamples were enumerated."""
    undefined_share: float
    """Share of resamples with a zero denominator; they were counted, not hidden."""
    low_error: float | None
    """Monte-Carlo standard error of the lower end; None if it can't be judged, 0 if enumerated."""
    high_error: float | None


@dataclass(frozen=True)
class RatioData:
    """Checked per-cluster sums with their CR0 fit."""

    numerator: Floats
    denominator: Floats
    fit: Fit

    @property
    def columns(self) -> Floats:
        """Per-cluster r, r², rD, D, D² with r = N − θD, shape (G, 5): enough for θ* and its se."""
        d = self.denominator
        r = self.numerator - self.fit.theta * d
        return np.stack([r, r * r, r * d, d, d * d], axis=1)


def ratio_data(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> RatioData | NotEstimable:
    """Return checked sums, or why there is nothing to resample."""
    top, bottom = floats(numerator, "numerator"), floats(denominator, "denominator")
    same_length(numerator=top, denominator=bottom)
    found = fit(top, bottom, "CR0")
    if isinstance(found, NotEstimable):
        return found
    return RatioData(top, bottom, found)


def percentile_bootstrap(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    key: bytes,
    confidence: Level = "0.95",
    resamples: int = DEFAULT_RESAMPLES,
) -> Bootstrap | NotEstimable:
    """Return the percentile interval of ΣN/ΣD from per-cluster sums of shape (G,).

    Ends are the ranks ⌊(B+1)α/2⌋ and its mirror. Identical clusters give an interval without width,
    which says so (`degenerate`) and decides no equivalence.
    """
    top, bottom = floats(numerator, "numerator"), floats(denominator, "denominator")
    same_length(numerator=top, denominator=bottom)
    return percentile_bootstraps(
        top[:, None], bottom, key=key, confidence=confidence, resamples=resamples
    )[0]


def percentile_bootstraps(
    numerators: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    key: bytes,
    confidence: Level = "0.95",
    resamples: int = DEFAULT_RESAMPLES,
) -> tuple[Bootstrap | NotEstimable, ...]:
    """Return the percentile interval of each column of ΣN/ΣD, sums of shape (G, m) over (G,).

    All metrics share one table of replicates: one pass over the random stream, one product.
    """
    level(confidence)
    tops, bottom = floats(numerators, "numerators", ndim=2), floats(denominator, "denominator")
    same_length(numerators=tops, denominator=bottom)
    sums = resampled_sums(key, np.column_stack([tops, bottom]), resamples)
    with np.errstate(all="ignore"):
        draws = np.where(sums[:, -1:] > 0, sums[:, :-1] / sums[:, -1:], np.nan).T.copy()
    return tuple(
        _percentile(ratio_data(tops[:, metric], bottom), draws[metric], confidence)
        for metric in range(tops.shape[1])
    )


def _percentile(
    data: RatioData | NotEstimable, draws: Floats, confidence: Level
) -> Bootstrap | NotEstimable:
    if isinstance(data, NotEstimable):
        return data
    defined = draws[np.isfinite(draws)]
    undefined = 1 - len(defined) / len(draws)
    if undefined > MAX_UNDEFINED:
        return NotEstimable(f"{undefined:.2%} of the resamples have a zero denominator")
    ends = rank_ends(defined, confidence)
    if ends is None:
        return NotEstimable(f"{len(draws)} resamples are too few for this confidence")
    return _finished(data, ends, "percentile", defined, undefined, confidence, len(draws))


def _finished(
    data: RatioData,
    ends: tuple[float, float],
    method: str,
    draws: Floats,
    undefined: float,
    confidence: Level,
    resamples: int,
) -> Bootstrap:
    exact = float(level(confidence))
    clusters = data.fit.clusters
    interval = Interval(data.fit.theta, ends[0], ends[1], exact, method, None, clusters)
    errors = end_errors(draws, confidence) or (None, None)
    return Bootstrap(interval, resamples, undefined, errors[0], errors[1])


def studentised_bootstrap(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    key: bytes,
    confidence: Level = "0.95",
    resamples: int = DEFAULT_RESAMPLES,
    log: bool = False,
) -> Bootstrap | NotEstimable:
    """Return the bootstrap-t interval of ΣN/ΣD, with the analytic error inside each resample.

    `log` works on log θ and returns ratios. A resample without variance counts as ±∞; where those
    reach the wanted rank the end is open.
    """
    level(confidence)
    data = ratio_data(numerator, denominator)
    if isinstance(data, NotEstimable):
        return data
    refusal = refuse_studentised(data, log)
    if refusal is not None:
        return refusal
    students = student_statistics(resampled_sums(key, data.columns, resamples), data.fit, log)
    defined = students[~np.isnan(students)]
    undefined = 1 - len(defined) / len(students)
    if undefined > MAX_UNDEFINED:
        return NotEstimable(f"{undefined:.2%} of the resamples have a zero denominator")
    ranks = rank_ends(defined, confidence)
    if ranks is None:
        return NotEstimable(f"{resamples} resamples are too few for this confidence")
    ends = student_ends(data.fit, ranks, log)
    result = _finished(data, ends, "studentised", defined, undefined, confidence, resamples)
    return _rescaled_errors(result, data.fit, log)


def refuse_studentised(data: RatioData, log: bool) -> NotEstimable | None:
    """Say why no bootstrap-t interval exists, if none does."""
    if data.fit.se == 0:
        return NotEstimable("the clusters show no variation")
    if float(peaks(data.columns).max()) > LARGEST:
        return NotEstimable("the squares of the sums overflow double precision")
    if log and (data.fit.theta <= 0 or np.any(data.numerator < 0)):
        return NotEstimable("a ratio of 0 or less has no logarithm")
    return None


def student_statistics(sums: Floats, found: Fit, log: bool) -> Floats:
    """Return (θ* − θ)/se* per resample, from columns of shape (B, 5); NaN without denominator."""
    r, r2, rd, d, d2 = sums.T
    with np.errstate(all="ignore"):
        shift = r / d
        spread = r2 - 2 * shift * rd + shift**2 * d2
        flat = spread <= 1e-12 * (r2 + shift**2 * d2)
        error = np.sqrt(np.where(flat, 0.0, spread)) / d
        if log:
            theta = found.theta + shift
            moved, error = np.log(theta / found.theta), error / theta
            moved = np.where(theta <= 1e-12 * found.theta, -np.inf, moved)
        else:
            moved = shift
        small = np.abs(shift) <= 1e-13 * max(abs(found.theta), found.se)
        limit = np.where(small, 0.0, np.sign(moved) * np.inf)
        students = np.where(error > 0, moved / error, limit)
        students = np.where(np.isneginf(moved), -np.inf, students)
    return np.where(d > 0, students, np.nan)


def student_ends(found: Fit, ranks: tuple[float, float], log: bool) -> tuple[float, float]:
    """Return θ − t*·se at both ranks (on the log scale where asked); ±∞ leaves the end open."""
    low_rank, high_rank = ranks
    if not log:
        return found.theta - high_rank * found.se, found.theta - low_rank * found.se
    step = found.se / found.theta
    with np.errstate(over="ignore"):
        low = found.theta * float(np.exp(-high_rank * step))
        high = found.theta * float(np.exp(-low_rank * step))
    return low, high


def _rescaled_errors(result: Bootstrap, found: Fit, log: bool) -> Bootstrap:
    if result.low_error is None or result.high_error is None:
        return result
    low, high = result.interval.low, result.interval.high
    low_scale = found.se * (low / found.theta if log else 1.0)
    high_scale = found.se * (high / found.theta if log else 1.0)
    errors = result.high_error * low_scale, result.low_error * high_scale
    finite = all(math.isfinite(error) for error in errors)
    return Bootstrap(
        result.interval,
        result.resamples,
        result.undefined_share,
        errors[0] if finite else None,
        errors[1] if finite else None,
    )


def montecarlo_p(at_most: int, at_least: int, resamples: int) -> float:
    """Return the two-sided Monte-Carlo p-value 2·min((n≤+1)/(B+1), (n≥+1)/(B+1)), capped at 1.

    `at_most` and `at_least` count the draws at or below, and at or above, the null value.
    """
    draws = whole(resamples, "resamples", 1, MAX_RESAMPLES)
    below, above = whole(at_most, "at_most", 0, draws), whole(at_least, "at_least", 0, draws)
    return min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
