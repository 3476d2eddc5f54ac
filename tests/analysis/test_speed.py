"""Speed as ratios to the machine's floor in one run; seconds would only measure the machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from harness import analysis as st

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bootstrap" / "run.py"
KEY = bytes(16)


@pytest.mark.slow
def test_the_bootstrap_stays_near_the_floor(tmp_path: Path) -> None:
    if not BENCHMARK.exists():
        pytest.skip("the benchmarks are not installed here")
    out = tmp_path / "timings.json"
    subprocess.run(
        [sys.executable, str(BENCHMARK), "--no-peers", "--json", str(out)],
        check=True,
        capture_output=True,
        cwd=BENCHMARK.parents[2],
    )
    seconds = {one["name"]: one["cpu_s"] for one in json.loads(out.read_text())}
    least = sum(cpu for name, cpu in seconds.items() if name.startswith("floor"))
    assert seconds["ours: whole nanoseconds"] <= 6 * least
    assert seconds["ours: floats by row"] <= 8 * least
    assert seconds["ours: p95 of one metric"] <= 6 * least


@pytest.mark.slow
def test_a_million_rows_need_little_memory_beside_themselves() -> None:
    generator = np.random.Generator(np.random.Philox(1))
    labels = generator.integers(0, 1_319, 1_000_000)
    values = generator.lognormal(size=(1_000_000, 10))
    tracemalloc.start()
    found = st.cluster_sums(labels, values)
    st.percentile_bootstraps(found.sums, found.clusters.sizes, key=KEY, resamples=9_999)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_from_two_clusters_to_a_million_rows() -> None:
    """One row per cluster, a million clusters: the interval is the plain t interval."""
    rows = 1_000_000
    values = np.arange(rows, dtype=np.int64) % 101
    estimate = st.mean_diff(np.arange(rows), np.zeros(rows, dtype=np.int64), values, weights="row")
    assert estimate.clusters == rows
    assert isinstance(estimate.interval, st.Interval)
    half = 1.959964 * values.std() / 1_000
    assert estimate.interval.high - estimate.estimate == pytest.approx(half, rel=1e-5)
    two = st.mean_diff([1, 2], [0, 0], [1, 3], weights="row")
    assert isinstance(two.interval, st.Interval)
    assert two.interval.df == 1
