"""Synthetic A/B data with a known truth, for judging intervals: many data sets at once.

Every scenario gives per-cluster sums (data sets × clusters) of a ratio ΣN/ΣD and its true value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.analysis.arrays import Floats

Generator = np.random.Generator
_NODES = 64


@dataclass(frozen=True)
class Sample:
    """Many data sets of one scenario."""

    numerator: Floats
    """Shape (data sets, clusters)."""
    denominator: Floats
    truth: float
    log: bool
    """Whether its interval is formed on the log scale."""
    lost: Floats | None = None
    """Pairs per cluster that only A got right, for answers."""
    won: Floats | None = None


Scenario = Callable[[Generator, int, int], Sample]
"""(generator, data sets, clusters) → sample."""


def answers(
    mean: float, sd: float, effect: float, pairs: int, *, unequal: bool = False
) -> Scenario:
    """Return right/wrong answers: logit difficulty N(mean, sd), B's effect N(effect, 0.3).

    `pairs` per task; with `unequal` between 1 and 2·pairs − 1 of them.
    """
    spread = 0.3 if effect else 0.0

    def draw(generator: Generator, sets: int, clusters: int) -> Sample:
        shape = (sets, clusters)
        logit = mean + sd * generator.standard_normal(shape)
        shift = effect + spread * generator.standard_normal(shape)
        right_a, right_b = _logistic(logit), _logistic(logit + shift)
        sizes = (
            generator.integers(1, 2 * pairs, shape) if unequal else np.full(shape, pairs)
        ).astype(np.int64)
        won = generator.binomial(sizes, (1 - right_a) * right_b)
        rest = (1 - (1 - right_a) * right_b).clip(1e-12)
        lost = generator.binomial(sizes - won, (right_a * (1 - right_b) / rest).clip(0, 1))
        truth = _mean_logistic(mean + effect, math.hypot(sd, spread)) - _mean_logistic(mean, sd)
        counted = [x.astype(np.float64) for x in (won - lost, sizes, lost, won)]
        return Sample(counted[0], counted[1], truth, False, counted[2], counted[3])

    return draw


def _logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def _mean_logistic(mean: float, sd: float) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return float((weights * _logistic(mean + sd * nodes)).sum() / weights.sum())


def total_times(log_sd: float, speedup: float = 1.3, repeats: int = 5) -> Scenario:
    """Return total time A / total time B: log-normal tasks, 10 % scatter of tasks and of runs."""

    def draw(generator: Generator, sets: int, clusters: int) -> Sample:
        shape = (sets, clusters)
        task = log_sd * generator.standard_normal(shape)
        effect = -math.log(speedup) + 0.1 * generator.standard_normal(shape)
        runs = [np.exp(0.1 * generator.standard_normal((*shape, repeats))).sum(-1) for _ in "AB"]
        truth = speedup * math.exp(-(0.1**2) / 2)
        times = np.exp(task) * runs[0], np.exp(task + effect) * runs[1]
        return Sample(times[0], times[1], truth, True)

    return draw


def heavy_log_ratios(speedup: float = 1.3) -> Scenario:
    """Return mean log-ratios, effects Student-t on three degrees of freedom."""

    def draw(generator: Generator, sets: int, clusters: int) -> Sample:
        effects = math.log(speedup) + 0.1 * generator.standard_t(3, (sets, clusters))
        return Sample(effects, np.ones_like(effects), math.log(speedup), False)

    return draw


@dataclass(frozen=True)
class BlockedTimes:
    """Log ratios of items that share their block's shock: what a batch or a minute shares."""

    log_ratio: Floats
    """Shape (data sets, blocks, items)."""
    truth: float


def blocked_times(
    generator: Generator, sets: int, blocks: int, items: int, *, shock: float, speedup: float
) -> BlockedTimes:
    """Return log(time A / time B) per item; log-sd `shock` per (block, arm), 5 % per item."""
    common = shock * math.sqrt(2) * generator.standard_normal((sets, blocks, 1))
    own = 0.05 * math.sqrt(2) * generator.standard_normal((sets, blocks, items))
    return BlockedTimes(math.log(speedup) + common + own, math.log(speedup))
