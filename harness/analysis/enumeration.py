"""The bootstrap without chance: all C(2G−1, G) distinct resamples of G ≤ 10 clusters.

Each count vector c has G!/∏c! of the G^G equally likely orders, so quantiles and moments are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers, choice, floats
from harness.analysis.bootstrap import (
    MAX_UNDEFINED,
    Bootstrap,
    RatioData,
    ratio_data,
    refuse_studentised,
    student_ends,
    student_statistics,
)
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.exact import exact_product
from harness.analysis.intervals_of_draws import weighted_ends
from harness.analysis.precision import Level, level
from harness.analysis.results import Interval

MAX_ENUMERATED = 10


@dataclass(frozen=True)
class Resamples:
    """Every distinct resample of G clusters."""

    counts: Floats
    """Shape (C(2G−1, G), G)."""
    ways: Integers
    """In how many of the G^G orders each occurs."""


@lru_cache(maxsize=MAX_ENUMERATED)
def all_resamples(clusters: int) -> Resamples:
    """Return all distinct resamples; `AnalysisError` above ten clusters."""
    if not 1 <= clusters <= MAX_ENUMERATED:
        raise AnalysisError(f"clusters: can enumerate 1 … {MAX_ENUMERATED}, not {clusters}")
    total = distinct_resamples(clusters)
    flat = np.fromiter(
        (
            index
            for draw in combinations_with_replacement(range(clusters), clusters)
            for index in draw
        ),
        dtype=np.int64,
        count=total * clusters,
    ).reshape(total, clusters)
    flat += np.arange(total)[:, None] * clusters
    counts = np.bincount(flat.ravel(), minlength=total * clusters).reshape(total, clusters)
    factorials = np.array([math.factorial(n) for n in range(clusters + 1)], dtype=np.int64)
    ways = math.factorial(clusters) // factorials[counts].prod(axis=1)
    found = Resamples(counts.astype(np.float64), ways)
    for array in (found.counts, found.ways):
        array.flags.writeable = False  # cached, so shared by every caller
    return found


def distinct_resamples(clusters: int) -> int:
    """Return C(2G−1, G), the number of distinct resamples of G clusters."""
    return math.comb(2 * clusters - 1, clusters)


def single_cluster_probability(clusters: int) -> float:
    """Return G^(1−G): how often a resample is one cluster repeated, hence without variance."""
    return float(clusters) ** (1 - clusters)


def resampled_ratios(numerator: Floats, denominator: Floats) -> tuple[Floats, Integers]:
    """Return ΣN/ΣD of every resample (NaN where ΣD is 0) and its weight."""
    every = all_resamples(len(numerator))
    table = np.stack([numerator, denominator], axis=1)
    sums = exact_product(every.counts, table, len(numerator))
    with np.errstate(all="ignore"):
        ratios = np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan)
    return ratios, every.ways


def enumerated_bootstrap(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
    method: Literal["percentile", "studentised"] = "percentile",
    log: bool = False,
) -> Bootstrap | NotEstimable:
    """Return the exact bootstrap interval of ΣN/ΣD for 2 ≤ G ≤ 10 clusters; no seed, no noise.

    Quantiles are those of the inverse distribution function. `log` matters to "studentised" only.
    """
    choice(method, ("percentile", "studentised"), "method")
    exact = float(level(confidence))
    data = ratio_data(numerator, denominator)
    if isinstance(data, NotEstimable):
        return data
    refusal = refuse_studentised(data, log) if method == "studentised" else None
    if refusal is not None:
        return refusal
    values, ways = _draws(data, method, log)
    defined = ~np.isnan(values)
    undefined = float(ways[~defined].sum() / ways.sum())
    if undefined > MAX_UNDEFINED:
        return NotEstimable(f"{undefined:.2%} of the resamples have a zero denominator")
    ends = weighted_ends(values[defined], ways[defined], confidence)
    if method == "studentised":
        ends = student_ends(data.fit, ends, log)
    clusters = data.fit.clusters
    name = f"{method}-enumerated"
    interval = Interval(data.fit.theta, ends[0], ends[1], exact, name, None, clusters)
    return Bootstrap(interval, 0, undefined, 0.0, 0.0)


def _draws(data: RatioData, method: str, log: bool) -> tuple[Floats, Integers]:
    if method == "percentile":
        return resampled_ratios(data.numerator, data.denominator)
    every = all_resamples(data.fit.clusters)
    sums = exact_product(every.counts, data.columns, data.fit.clusters)
    return student_statistics(sums, data.fit, log), every.ways


def enumerated_error(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> float | NotEstimable:
    """Return the exact bootstrap standard error of ΣN/ΣD (G ≤ 10)."""
    data = ratio_data(numerator, denominator)
    if isinstance(data, NotEstimable):
        return data
    ratios, ways = resampled_ratios(data.numerator, data.denominator)
    if np.isnan(ratios).any():
        return NotEstimable("some resamples have a zero denominator")
    share = ways / ways.sum()
    mean = float(share @ ratios)
    return math.sqrt(float(share @ (ratios - mean) ** 2))


def undefined_share(denominator: npt.ArrayLike) -> float:
    """Return the exact share of resamples whose denominator is 0 (G ≤ 10)."""
    bottom = floats(denominator, "denominator")
    every = all_resamples(len(bottom))
    empty = every.counts @ (bottom != 0) == 0
    return float(every.ways[empty].sum() / every.ways.sum())
