"""Drift: the frozen order cancels it, AABB does not; 200 whole A/A runs keep the nominal rate."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drift import log_ratios
from tests.run.analysed import SPEED, plan_with, ran, verdict
from tests.run.bench import two_arms

PER_VISIT = math.expm1(math.log1p(0.01) / 4)
"""1 % per block of four visits."""


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def test_aabb_shows_the_bias_and_the_frozen_order_does_not() -> None:
    biased = mean(log_ratios(("AABB",), "1"))
    assert biased == pytest.approx(2 * math.log1p(PER_VISIT), abs=0.0025)
    assert abs(mean(log_ratios(("ABBA", "BAAB"), "1"))) < 0.0025


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_a_a_runs_under_drift_reject_at_the_nominal_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 % two-sided: of 200 runs, 12 to 29 with probability 97 %."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    options: dict[str, Any] = {"drift_per_visit": PER_VISIT, "jitter": 0.005}
    arms = two_arms(options, speedup=1.0, **options)
    rejected = 0
    for number in range(200):
        plan = plan_with(arms, SPEED, blocks=16)
        _, found = ran(tmp_path / str(number), plan, seed=str(number))
        one = verdict(found, "P1")
        rejected += not one["low"] <= 1 <= one["high"]
    print(rejected)
    assert 12 <= rejected <= 29
