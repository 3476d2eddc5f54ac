"""Cluster bootstrap of many metrics: this package beside pandas, SciPy, arch and the floor.

    python benchmarks/bootstrap/run.py [--rows N] [--no-peers] [--json FILE]

One thread. Every figure is the smallest of a few repeats, in wall seconds with CPU seconds beside
it, because on a shared machine only the latter is the program's own. Peers are timed on a few
replicates and scaled up, which favours them. The floor is what no implementation of the plan can
avoid: one pass of the random stream, one pass of per-cluster sums, one product of counts and sums.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402 - threads must be set first

from harness import analysis as st  # noqa: E402
from harness.analysis.resampling import BLOCK, raw_words  # noqa: E402

CLUSTERS, METRICS, RESAMPLES = 1_319, 40, 10_000
KEY = st.resampling_key("0" * 64, "benchmark")


@dataclass(frozen=True)
class Timing:
    """Seconds of one method, scaled to the whole problem."""

    name: str
    wall_s: float
    cpu_s: float
    scaled_from: int
    """Replicates that were run; RESAMPLES where nothing was scaled."""


@dataclass(frozen=True)
class Data:
    """Rows of unequal clusters: whole nanoseconds, and the same as seconds."""

    labels: np.ndarray
    nanoseconds: np.ndarray
    seconds: np.ndarray


def make_data(rows: int) -> Data:
    generator = np.random.Generator(np.random.Philox(20))
    share = generator.lognormal(0, 0.5, CLUSTERS)
    labels = generator.choice(CLUSTERS, rows, p=share / share.sum())
    labels[:CLUSTERS] = np.arange(CLUSTERS)
    spread = generator.lognormal(0, 1, (METRICS, rows)) * 1e7
    nanoseconds = np.rint(spread).T  # column by column in memory, as Parquet gives it
    return Data(labels, nanoseconds, nanoseconds * 1e-9)


def timed(
    name: str, work: Callable[[], object], *, repeats: int = 5, ran: int = RESAMPLES
) -> Timing:
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    scale = RESAMPLES / ran
    return Timing(name, scale * min(walls), scale * min(cpus), ran)


def ours(data: Data, values: np.ndarray) -> object:
    """Labels to clusters to sums to replicates to forty intervals with their Monte-Carlo errors."""
    found = st.cluster_sums(st.clusters_of(data.labels), values)
    return st.percentile_bootstraps(found.sums, found.clusters.sizes, key=KEY, resamples=RESAMPLES)


def quantiles(data: Data) -> object:
    """One exact quantile of the pooled rows in every replicate."""
    return st.resampled_quantiles(KEY, data.labels, data.seconds[:, 0], "0.95", RESAMPLES)


def floor(data: Data) -> list[Timing]:
    """The three passes of plan v1, each by itself."""
    words = BLOCK * CLUSTERS // 2
    blocks = -(-RESAMPLES // BLOCK)
    codes = st.clusters_of(data.labels).codes
    counts = st.bootstrap_counts(KEY, CLUSTERS, BLOCK).astype(float)
    sums = st.cluster_sums(data.labels, data.seconds).sums
    product = np.empty((BLOCK, METRICS))
    columns = [data.seconds[:, metric] for metric in range(METRICS)]
    return [
        timed(
            "floor: one pass of Philox", lambda: [raw_words(KEY, b, words) for b in range(blocks)]
        ),
        timed(
            "floor: one bincount of every metric",
            lambda: [np.bincount(codes, weights=one, minlength=CLUSTERS) for one in columns],
        ),
        timed(
            "floor: one product",
            lambda: [np.matmul(counts, sums, out=product) for _ in range(blocks)],
        ),
    ]


def pandas_concat(data: Data, replicates: int = 3) -> Timing:
    import pandas as pd

    frame = pd.DataFrame(data.seconds)
    groups = dict(iter(frame.groupby(data.labels)))
    generator = np.random.Generator(np.random.Philox(21))
    names = np.array(sorted(groups))

    def work() -> None:
        for _ in range(replicates):
            drawn = generator.choice(names, len(names))
            pd.concat([groups[label] for label in drawn]).mean()

    return timed("pandas groupby and concat", work, repeats=2, ran=replicates)


def scipy_bootstrap(sums: np.ndarray, replicates: int = 1_000) -> Timing:
    """SciPy at the batch size that suits it best here."""
    from scipy.stats import bootstrap

    means = sums / sums.mean()

    def work(batch: int) -> None:
        bootstrap(
            (means,), np.mean, n_resamples=replicates, axis=0, batch=batch, method="percentile",
            rng=np.random.Generator(np.random.Philox(22)),
        )  # fmt: skip

    name = "scipy.stats.bootstrap on ready cluster sums"
    every = [timed(name, partial(work, batch), ran=replicates) for batch in (8, 16, 32, 64)]
    return min(every, key=lambda one: one.cpu_s)


def arch_bootstrap(sums: np.ndarray, replicates: int = 1_000) -> Timing | None:
    try:
        from arch.bootstrap import IIDBootstrap
    except ImportError:
        return None

    def work() -> None:
        drawn = IIDBootstrap(sums, seed=np.random.Generator(np.random.Philox(23)))
        drawn.conf_int(lambda table: table.mean(axis=0), replicates, method="percentile")

    return timed("arch IIDBootstrap on ready cluster sums", work, repeats=3, ran=replicates)


def measure(rows: int, *, peers: bool) -> list[Timing]:
    data = make_data(rows)
    by_row = np.ascontiguousarray(data.seconds)
    sums = st.cluster_sums(data.labels, data.seconds).sums
    found = [
        timed("ours: whole nanoseconds", lambda: ours(data, data.nanoseconds)),
        timed("ours: floats by column", lambda: ours(data, data.seconds)),
        timed("ours: floats by row", lambda: ours(data, by_row)),
        timed(
            "ours: ready cluster sums",
            lambda: st.percentile_bootstraps(sums, np.ones(CLUSTERS), key=KEY, resamples=RESAMPLES),
        ),
        timed("ours: p95 of one metric", lambda: quantiles(data), repeats=3),
        *floor(data),
    ]
    if not peers:
        return found
    others = [scipy_bootstrap(sums), arch_bootstrap(sums), pandas_concat(data)]
    return [*found, *(one for one in others if one is not None)]


def table(timings: list[Timing]) -> str:
    least = sum(one.cpu_s for one in timings if one.name.startswith("floor"))
    lines = ["| method | wall s | CPU s | CPU / floor |", "| --- | --: | --: | --: |"]
    for one in timings:
        mark = "" if one.scaled_from == RESAMPLES else f" (from {one.scaled_from} replicates)"
        lines.append(
            f"| {one.name}{mark} | {one.wall_s:.3g} | {one.cpu_s:.3g} | {one.cpu_s / least:.3g} |"
        )
    return "\n".join([*lines, f"| **floor, together** | | {least:.3g} | 1 |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--no-peers", action="store_true", help="time only this package")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    timings = measure(chosen.rows, peers=not chosen.no_peers)
    sys.stdout.write(
        f"{RESAMPLES} resamples x {METRICS} metrics x {chosen.rows} rows in {CLUSTERS} clusters\n\n"
        f"{table(timings)}\n"
    )
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(one) for one in timings], indent=1) + "\n")


if __name__ == "__main__":
    main()
