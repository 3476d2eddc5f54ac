"""Rank intervals from bootstrap draws, and how far Monte-Carlo noise may move their ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from harness.analysis.arrays import Floats, Integers
from harness.analysis.precision import Level, percentile_ranks, tails
from harness.analysis.resampling import BLOCK


def rank_ends(draws: Floats, confidence: Level) -> tuple[float, float] | None:
    """Return the k-th smallest and k-th largest of the draws, k = ⌊(B+1)α/2⌋; None if k < 1."""
    ranks = percentile_ranks(len(draws), confidence)
    if ranks is None:
        return None
    low, high = ranks[0] - 1, ranks[1] - 1
    ordered = np.sort(draws)  # faster than a partition at two ranks
    return float(ordered[low]), float(ordered[high])


def end_errors(draws: Floats, confidence: Level) -> tuple[float, float] | None:
    """Return the Monte-Carlo standard errors of both ends, from the spread of whole blocks.

    None with fewer than two whole blocks or where a block is too small for the level.
    """
    blocks, ranks = len(draws) // BLOCK, percentile_ranks(BLOCK, confidence)
    if blocks < 2 or ranks is None:
        return None
    wanted = [ranks[0] - 1, ranks[1] - 1]
    each = draws[: blocks * BLOCK].reshape(blocks, BLOCK)
    ends = np.sort(each, axis=1)[:, wanted]
    if not np.isfinite(ends).all():
        return None
    spread = ends.std(axis=0, ddof=1) / math.sqrt(blocks)
    return float(spread[0]), float(spread[1])


def weighted_ends(values: Floats, weights: Integers, confidence: Level) -> tuple[float, float]:
    """Return the inverse-CDF ends of an exactly known distribution with whole-number weights."""
    low, high = tails(confidence)
    return inverse_cdf(values, weights, low), inverse_cdf(values, weights, high)


def inverse_cdf(values: Floats, weights: Integers, share: Fraction) -> float:
    """Return the smallest value whose cumulative weight reaches `share` of the total, exactly."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    need = math.ceil(share * int(reached[-1]))
    index = int(np.searchsorted(reached, need, side="left"))
    return float(values[order[min(index, len(order) - 1)]])
