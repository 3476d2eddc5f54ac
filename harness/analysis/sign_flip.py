"""The sign-flip test on per-cluster differences: exact whenever a cluster's sign is a fair coin.

The statistic is |Σd|. Up to 20 clusters that differ, all sign patterns are counted; differences in
whole numbers (counts of answers) are counted exactly for any number of clusters; the rest is Monte
Carlo with (b + 1)/(B + 1). Sums that tie up to rounding count as ties: plain float comparison turns
.094 into .031 on the differences .1, .2, .3, −.1, .6, .7.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, choice, floats
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.exact import add, slices
from harness.analysis.resampling import BLOCK, DEFAULT_RESAMPLES, check_size, raw_words
from harness.analysis.results import Alternative, TestResult, proper_p

MAX_ENUMERATED = 20
MAX_CONVOLUTION = 200_000_000
_FIRST_BLOCK = 1 << 40  # blocks below are the bootstrap's, so that one key serves both
TIE = 1e-10
"""Sums closer than this share of Σ|d| are ties."""


def sign_flip(
    differences: npt.ArrayLike,
    alternative: Alternative = "two-sided",
    *,
    key: bytes | None = None,
    resamples: int = DEFAULT_RESAMPLES,
) -> TestResult | NotEstimable:
    """Return the test that differences (B − A per cluster, shape (G,)) are symmetric about 0.

    "greater" means B above A. `key` names the Monte-Carlo stream; it is needed only for more than
    20 differences that are neither 0 nor whole numbers, and then `AnalysisError` asks for it.
    """
    choice(alternative, ("two-sided", "greater", "less"), "alternative")
    values = floats(differences, "differences")
    if len(values) < 2:
        return NotEstimable("one cluster carries no variation between clusters")
    moving = values[values != 0]
    notes = _notes(len(moving))
    if len(moving) == 0:
        return TestResult(1.0, None, "sign-flip-exact", alternative, len(values), notes)
    signed = -moving if alternative == "less" else moving
    two_sided = alternative == "two-sided"
    method = "sign-flip-exact"
    if len(moving) <= MAX_ENUMERATED:
        p = _enumerated(signed, two_sided)
    elif _countable(signed):
        p = _convolved(signed, two_sided)
    else:
        p, method = _montecarlo(signed, two_sided, key, resamples), "sign-flip-monte-carlo"
    return TestResult(proper_p(p), float(values.sum()), method, alternative, len(values), notes)


def smallest_sign_flip_p(clusters: int) -> float:
    """Return the smallest two-sided p that G clusters can reach: 2/2^G."""
    return min(1.0, 2.0 / 2.0 ** min(clusters, 1000))


def _notes(moving: int) -> tuple[str, ...]:
    if moving < 6:
        return (f"cannot decide: {moving} clusters that differ never reach p ≤ 0.05",)
    return ()


def pattern_sums(values: Floats) -> Floats:
    """Return Σ±v over all 2^k sign patterns; k on the first axis, further axes kept."""
    sums = np.zeros((1, *values.shape[1:]))
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _enumerated(values: Floats, two_sided: bool) -> float:
    sums = pattern_sums(values)
    observed, slack = float(values.sum()), TIE * float(np.abs(values).sum())
    if two_sided:
        sums, observed = np.abs(sums), abs(observed)
    return int(np.count_nonzero(sums >= observed - slack)) / len(sums)


def _countable(values: Floats) -> bool:
    whole = bool(np.all(values == np.rint(values)))
    return whole and float(np.abs(values).sum()) * len(values) <= MAX_CONVOLUTION


def _convolved(values: Floats, two_sided: bool) -> float:
    """Return the exact p for whole numbers: the law of Σ±d by repeated convolution."""
    steps = np.abs(values).astype(np.int64)
    divisor = int(np.gcd.reduce(steps))
    steps = steps // divisor
    reach = int(steps.sum())
    law = np.zeros(reach + 1)  # chance that the flipped part adds up to j; Σ±d = reach − 2j
    law[0] = 1.0
    for step in np.sort(steps):
        law[step:] += law[:-step].copy()
        law /= 2
    observed = round(float(values.sum()) / divisor)
    totals = reach - 2 * np.arange(reach + 1)
    extreme = np.abs(totals) >= abs(observed) if two_sided else totals >= observed
    return min(1.0, float(math.fsum(law[extreme])))


def sign_blocks(key: bytes, clusters: int, block: int) -> Floats:
    """Return ±1 for 256 replicates of one block, shape (256, G), from the bits of raw words."""
    words = -(-clusters // 64)
    raw = raw_words(key, _FIRST_BLOCK + block, BLOCK * words).astype("<u8", copy=False)
    bits = np.unpackbits(raw.view(np.uint8).reshape(BLOCK, words * 8), axis=1, bitorder="little")
    return 1.0 - 2.0 * bits[:, :clusters].astype(np.float64)


def flipped_sums(key: bytes, values: Floats, resamples: int) -> Floats:
    """Return Σ±d for random sign patterns shared by all columns; (G, m) → (resamples, m)."""
    clusters, metrics = values.shape
    check_size(clusters, resamples)
    parts = slices(values, clusters)
    found = np.empty((resamples, metrics))
    for block in range(-(-resamples // BLOCK)):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, resamples)
        signs = sign_blocks(key, clusters, block)[: stop - start]
        found[start:stop] = add([signs @ part for part in parts])
    return found


def _montecarlo(values: Floats, two_sided: bool, key: bytes | None, resamples: int) -> float:
    if key is None:
        raise AnalysisError(
            f"key: {len(values)} differences are too many to enumerate; pass resampling_key(…)"
        )
    sums = flipped_sums(key, values[:, None], resamples)[:, 0]
    observed, slack = float(values.sum()), TIE * float(np.abs(values).sum())
    if two_sided:
        sums, observed = np.abs(sums), abs(observed)
    return (int(np.count_nonzero(sums >= observed - slack)) + 1) / (resamples + 1)
