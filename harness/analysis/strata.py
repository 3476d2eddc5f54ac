"""Stratified variance: clusters drawn within strata vary only around their stratum.

For θ = ΣN/ΣD over all strata, with residuals r = N − θD of the G_s clusters of stratum s and their
plain mean r̄_s (the combined ratio estimator, Cochran 1977, 6.11), each with the leverage of CR2
inside its stratum:

    V  = Σ_s Σ_{g in s} (r − r̄_s)² / (1 − D/ΣD_s) / (ΣD)²
    df = (ΣD)² / Σ_s (ΣD_s)²/df_s,  df_s Satterthwaite's df of CR2 within stratum s

One stratum gives CR2. With D = 1 it is the variance of a stratified mean, Σ_s (G_s/G)² s_s²/G_s.
What differs between strata, such as the templates of prompts, is by design and no error; forgetting
it makes intervals too wide. Strata must be fixed before the data, and each needs two clusters.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers, floats, same_length
from harness.analysis.cr2 import Fit, fit, interval_of, moments
from harness.analysis.errors import NotEstimable
from harness.analysis.labels import Labels, coded
from harness.analysis.precision import Level
from harness.analysis.results import Interval

STRATIFIED = "cr2-stratified"
_NOISE = 1e-13


def stratified_interval(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    strata: Labels,
    *,
    confidence: Level = "0.95",
    log: bool = False,
) -> Interval | NotEstimable:
    """Return the t interval of ΣN/ΣD from per-cluster sums and the stratum of each, shape (G,).

    `log` forms the interval on log θ and returns it on the ratio scale.
    """
    found = stratified_fit(numerator, denominator, strata)
    if isinstance(found, NotEstimable):
        return found
    return interval_of(found, confidence, log, name=STRATIFIED)


def stratified_fit(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, strata: Labels
) -> Fit | NotEstimable:
    """Return θ with its stratified error; not estimable where a stratum has one cluster."""
    top, bottom = floats(numerator, "numerator"), floats(denominator, "denominator")
    groups = coded(strata)
    same_length(numerator=top, denominator=bottom, strata=groups.codes)
    whole = fit(top, bottom)
    if isinstance(whole, NotEstimable):
        return whole
    sizes = np.bincount(groups.codes)
    if int(sizes.min()) < 2:
        alone = groups.labels[int(sizes.argmin())]
        return NotEstimable(f"stratum {alone!r} has one cluster, needs two")
    totals: Floats = np.bincount(groups.codes, weights=bottom).astype(np.float64)
    largest = np.zeros(len(totals))
    np.maximum.at(largest, groups.codes, bottom)
    if np.any(largest >= totals * (1 - 1e-12)):
        held = groups.labels[int(np.argmax(largest >= totals * (1 - 1e-12)))]
        return NotEstimable(f"one cluster holds the whole denominator of stratum {held!r}")
    squares = _squares(top, bottom, whole.theta, groups.codes)
    leverage = bottom / totals[groups.codes]
    se = math.sqrt(float((squares / (1 - leverage)).sum())) / float(bottom.sum())
    df = _degrees(bottom, totals, groups.codes)
    if not (math.isfinite(se) and math.isfinite(df)):
        return NotEstimable("the sums overflow double precision")
    share = float(squares.max() / squares.sum()) if squares.any() else None
    return Fit(whole.theta, se, df, len(top), share)


def _squares(top: Floats, bottom: Floats, theta: float, codes: Integers) -> Floats:
    """Return (r − r̄_s)² of every cluster; differences below rounding are none."""
    residual = top - theta * bottom
    centre = np.bincount(codes, weights=residual) / np.bincount(codes)
    size = float(np.maximum(np.abs(top), np.abs(theta * bottom)).max())
    centred = residual - centre[codes]
    return np.asarray(np.where(np.abs(centred) <= _NOISE * size, 0.0, centred) ** 2)


def _degrees(bottom: Floats, totals: Floats, codes: Integers) -> float:
    each = [
        moments(np.zeros_like(bottom[codes == one]), bottom[codes == one]).df
        for one in range(len(totals))
    ]
    share = totals / totals.sum()
    return float(1 / (share**2 / np.array(each, dtype=np.float64)).sum())
