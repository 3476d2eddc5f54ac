"""The statistics judge themselves: do intervals cover as often as they say, where truth is known?

Three questions. Does the deciding interval cover within 93–97 % where it claims 95 %? Do block
clusters cover when blocks share a shock, while item clusters visibly do not? Do A/A runs find a
difference about as often as α? Fixed streams, so the answer is the same every time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from harness.analysis.arrays import Floats
from harness.analysis.clusters import clusters_of
from harness.analysis.cr2 import Moments, moments
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.estimands import log_ratio
from harness.analysis.scenarios import (
    Generator,
    Sample,
    Scenario,
    answers,
    blocked_times,
    heavy_log_ratios,
    total_times,
)
from harness.analysis.tango import tango_bounds

CLAIMED = (0.93, 0.97)
SIZES = (8, 20, 50, 200)
BLOCKS, ITEMS = 16, 25
AA_RUNS = 1_000
AA_REJECTS = (0.03, 0.07)


@dataclass(frozen=True)
class CoverageCell:
    """One judged cell."""

    name: str
    clusters: int
    method: str
    share: float
    """Observed coverage, or rejection rate for A/A."""
    low: float
    """What was claimed: the share lies in [low, high]."""
    high: float
    data_sets: int

    @property
    def ok(self) -> bool:
        """Whether the claim stands."""
        return self.low <= self.share <= self.high

    @property
    def sentence(self) -> str:
        """The cell in words."""
        verdict = "as claimed" if self.ok else "NOT as claimed"
        return (
            f"{self.name}, {self.clusters} clusters, {self.method}: {self.share:.1%}, "
            f"claimed {self.low:.0%} to {self.high:.0%}: {verdict}"
        )


SCENARIOS: tuple[tuple[str, Scenario, tuple[int, ...]], ...] = (
    ("answers, 1 pair per task", answers(1.0, 1.5, 0.25, 1), SIZES[1:]),
    ("answers, 5 pairs per task", answers(1.0, 1.5, 0.25, 5), SIZES),
    ("answers, unequal tasks", answers(1.0, 1.5, 0.25, 5, unequal=True), SIZES),
    ("answers, no effect", answers(1.0, 1.5, 0.0, 5), SIZES),
    ("answers near the ceiling", answers(4.2, 1.2, 0.25, 5), SIZES[1:]),
    ("total times, log-sd 0.5", total_times(0.5), SIZES),
    ("total times, log-sd 1.0", total_times(1.0), SIZES),
    ("mean log-ratio, t3", heavy_log_ratios(), SIZES),
)
"""Name, scenario and the numbers of clusters at which CR2 claims 93–97 %."""

TANGO = (("answers near the ceiling, 1 pair", answers(4.2, 1.2, 0.25, 1), (8, 20, 50)),)
"""Where only the score interval keeps its word; it is conservative there."""


def coverage_check(*, data_sets: int = 4_000, aa_runs: int = AA_RUNS) -> tuple[CoverageCell, ...]:
    """Return every cell with what was claimed and what was seen.

    At 4,000 data sets the Monte-Carlo error is 0.35 points. Raises `AnalysisError` below 500, where
    a cell could miss its claim by chance.
    """
    if data_sets < 500 or aa_runs < 500:
        raise AnalysisError("data_sets: fewer than 500 say nothing about coverage")
    return (
        *_cr2_cells(data_sets),
        *_tango_cells(data_sets),
        *_block_cells(data_sets),
        aa_cell(aa_runs),
    )


def generator_of(label: str) -> Generator:
    """Return the fixed stream of a label."""
    digest = hashlib.sha256(b"coverage-v1\0" + label.encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def _cr2_cells(data_sets: int) -> Iterator[CoverageCell]:
    for name, scenario, sizes in SCENARIOS:
        for clusters in sizes:
            sample = scenario(generator_of(f"{name}/{clusters}"), data_sets, clusters)
            share = float(cr2_covers(sample).mean())
            yield CoverageCell(name, clusters, "cr2", share, *CLAIMED, data_sets)


def cr2_covers(
    sample: Sample, confidence: float = 0.95
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each data set whether its CR2 interval holds the truth; none without variation."""
    found = moments(sample.numerator, sample.denominator)
    gap = np.log(found.theta / sample.truth) if sample.log else found.theta - sample.truth
    error = found.se / found.theta if sample.log else found.se
    return np.asarray(np.abs(gap) <= _critical(found, confidence) * error)


def _critical(found: Moments, confidence: float) -> Floats:
    return np.asarray(stdtrit(found.df, 1 - (1 - confidence) / 2))


def _tango_cells(data_sets: int) -> Iterator[CoverageCell]:
    z = float(ndtri(0.975))
    for name, scenario, sizes in TANGO:
        for clusters in sizes:
            sample = scenario(generator_of(f"{name}/{clusters}"), data_sets, clusters)
            if sample.lost is None or sample.won is None:
                raise AssertionError("Tango judges answers only")
            lost, won = sample.lost.sum(-1), sample.won.sum(-1)
            effect = _design_effect(sample)
            total = sample.denominator.sum(-1)
            low, high = tango_bounds(lost / effect, won / effect, total / effect, z)
            share = float(((low <= sample.truth) & (sample.truth <= high)).mean())
            yield CoverageCell(name, clusters, "tango-effective", share, 0.93, 1.0, data_sets)


def _design_effect(sample: Sample) -> Floats:
    """Return φ of every data set, as `paired_design_effect` does for one."""
    total, clusters = sample.denominator.sum(-1), sample.denominator.shape[-1]
    gap, discordant = sample.numerator.sum(-1), (sample.numerator**2).sum(-1)
    if sample.lost is not None and sample.won is not None:
        discordant = (sample.lost + sample.won).sum(-1)
    naive = (discordant - gap**2 / total) / total**2
    robust = moments(sample.numerator, sample.denominator, "CR1").se ** 2
    with np.errstate(all="ignore"):
        effect = np.where(naive > 0, np.maximum(1.0, robust / naive), total / clusters)
    return np.asarray(effect, dtype=np.float64)


def _block_cells(data_sets: int) -> Iterator[CoverageCell]:
    """Yield block clusters, which must cover, and item clusters, which must be seen not to."""
    for shock in (0.03, 0.05):
        name = f"{BLOCKS} blocks × {ITEMS} items, {shock:.0%} block noise"
        sets = max(500, data_sets // 2)
        sample = blocked_times(generator_of(name), sets, BLOCKS, ITEMS, shock=shock, speedup=1.3)
        by_block = sample.log_ratio.mean(-1)
        by_item = sample.log_ratio.reshape(sets, -1)
        for values, method, claimed in (
            (by_block, "blocks as clusters", CLAIMED),
            (by_item, "items as clusters", (0.0, 0.85)),
        ):
            judged = Sample(values, np.ones_like(values), sample.truth, False)
            share = float(cr2_covers(judged).mean())
            yield CoverageCell(name, values.shape[1], method, share, *claimed, sets)


def aa_cell(runs: int = AA_RUNS) -> CoverageCell:
    """Return how often A/A runs with block shocks find a difference, through the public estimand.

    16 blocks × 25 items, two arms that are the same program, shocks of 5 % per (block, arm).
    """
    generator = generator_of("a/a")
    labels = clusters_of(np.repeat(np.arange(BLOCKS), ITEMS))
    rejected = 0
    for _ in range(runs):
        drawn = blocked_times(generator, 1, BLOCKS, ITEMS, shock=0.05, speedup=1.0)
        times = np.exp(drawn.log_ratio.ravel())
        interval = log_ratio(labels, times, np.ones_like(times)).interval
        if isinstance(interval, NotEstimable) or not interval.low <= 1.0 <= interval.high:
            rejected += 1
    return CoverageCell("a/a runs", BLOCKS, "log_ratio", rejected / runs, *AA_REJECTS, runs)
