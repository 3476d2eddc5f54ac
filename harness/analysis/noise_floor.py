"""The noise floor: how much an arm differs from itself, from the repeats in every ABBA run.

Two visits of the same arm on the same task are not two observations; where they disagree, that *is*
the floor below which a difference between the arms means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Booleans, Floats, binary, floats, same_length
from harness.analysis.cr2 import cr2_interval
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level
from harness.analysis.proportions import wilson_interval
from harness.analysis.results import Interval


@dataclass(frozen=True)
class NoiseFloor:
    """Discordance within and between the arms, as shares of tasks."""

    within_a: float
    within_b: float
    between: float
    """Mean over the four A–B pairings."""
    excess: float
    """between − (within_a + within_b)/2."""
    interval: Interval | NotEstimable
    """CR2 interval of the excess over tasks."""
    tasks: int


def noise_floor(
    a1: npt.ArrayLike,
    a2: npt.ArrayLike,
    b1: npt.ArrayLike,
    b2: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
) -> NoiseFloor:
    """Return discordances of right/wrong answers, one entry per task, two visits per arm."""
    visits = [binary(x, name) for x, name in zip((a1, a2, b1, b2), _NAMES, strict=True)]
    tasks = same_length(**dict(zip(_NAMES, visits, strict=True)))
    first_a, second_a, first_b, second_b = visits
    within_a, within_b = _differs(first_a, second_a), _differs(first_b, second_b)
    between = (
        _differs(first_a, first_b)
        + _differs(first_a, second_b)
        + _differs(second_a, first_b)
        + _differs(second_a, second_b)
    ) / 4
    excess = between - (within_a + within_b) / 2
    return NoiseFloor(
        float(within_a.mean()),
        float(within_b.mean()),
        float(between.mean()),
        float(excess.mean()),
        cr2_interval(excess, np.ones(tasks), confidence=confidence),
        tasks,
    )


_NAMES = ("a1", "a2", "b1", "b2")


def _differs(left: Booleans, right: Booleans) -> Floats:
    return np.not_equal(left, right).astype(np.float64)


@dataclass(frozen=True)
class Agreement:
    """Share of tasks on which two visits gave the identical output, with the floor beside it."""

    between: Interval | NotEstimable
    """Wilson interval of the A–B share."""
    within_a: Interval | NotEstimable | None
    within_b: Interval | NotEstimable | None
    excess: Interval | NotEstimable | None
    """A–B agreement − (A–A + B–B)/2, CR2 over tasks; below 0 B differs. None without repeats."""


def agreement(
    between: npt.ArrayLike,
    within_a: npt.ArrayLike | None = None,
    within_b: npt.ArrayLike | None = None,
    *,
    confidence: Level = "0.95",
) -> Agreement:
    """Return agreement from one 0/1 per task: do the outputs match (A–B; A–A and B–B too)."""
    match = binary(between, "between")
    floors = [
        None if x is None else binary(x, name)
        for x, name in ((within_a, "within_a"), (within_b, "within_b"))
    ]
    for floor in floors:
        if floor is not None and len(floor) != len(match):
            raise AnalysisError(f"lengths differ: between {len(match)}, within {len(floor)}")
    shares = [
        None if one is None else wilson_interval(int(one.sum()), len(one), confidence)
        for one in (match, *floors)
    ]
    first, second = floors
    excess = None
    if first is not None and second is not None:
        gap = match.astype(np.float64) - (first.astype(np.float64) + second) / 2
        excess = cr2_interval(gap, np.ones(len(match)), confidence=confidence)
    whole = shares[0]
    if whole is None:
        raise AssertionError("the first share is always there")
    return Agreement(whole, shares[1], shares[2], excess)


@dataclass(frozen=True)
class RepeatNoise:
    """How times scatter between two visits of the same arm on the same task, on the log scale."""

    ratio: Interval | NotEstimable
    """Geometric-mean ratio first/second visit: 1 unless there is drift."""
    spread: float
    """Standard deviation of one visit's log time, √(mean d²/2) with the mean ratio taken out."""
    tasks: int


def repeat_noise(
    first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: Level = "0.95"
) -> RepeatNoise | NotEstimable:
    """Return the A/A noise of positive times, one entry per task and visit."""
    left, right = floats(first, "first"), floats(second, "second")
    tasks = same_length(first=left, second=right)
    if np.any(left <= 0) or np.any(right <= 0):
        raise AnalysisError("times: a value of 0 or less has no logarithm")
    if tasks < 2:
        return NotEstimable("one task carries no variation between tasks")
    logs = np.log(left) - np.log(right)
    spread = float(np.std(logs, ddof=1)) / np.sqrt(2.0)
    interval = cr2_interval(logs, np.ones(tasks), confidence=confidence)
    if isinstance(interval, Interval):
        interval = interval.exponentiated()
    return RepeatNoise(interval, float(spread), tasks)


def variance_ratio(noise_a: RepeatNoise, noise_b: RepeatNoise) -> float | NotEstimable:
    """Return the variance of B's repeats over that of A's; far from 1, one arm is the noisier."""
    if noise_a.spread == 0:
        return NotEstimable("arm A shows no noise")
    return (noise_b.spread / noise_a.spread) ** 2
