"""Nsight Compute around a worker: what each kernel of an unscored visit took, by its own counters.

The worker is started below `ncu`, which sees nothing before the engine says so and stops looking
after a bounded number of kernels. It replays each of them, so that no time of that visit is true.
"""

from __future__ import annotations

import contextlib
import csv
import shutil
from collections import defaultdict
from pathlib import Path

from harness.store.canonical import Json
from harness.store.files import storage_errors

KERNELS = 200
"""Launches that are looked at; each is run again for every group of counters."""
DURATION = "gpu__time_duration.sum"
METRICS = (
    DURATION,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
ROWS = 40


def tool(device: str) -> str | None:
    """Return the path of Nsight Compute, or None where it is absent or there is nothing to see."""
    return shutil.which("ncu") if device == "cuda" else None


def command(ncu: str, log: Path) -> tuple[str, ...]:
    """Return what is put before a worker's command line; clocks are left as they are.

    Everything that `ncu` says goes to `log`: standard output is the worker's wire.
    """
    return (
        ncu, "--target-processes", "all", "--profile-from-start", "off",
        "--launch-count", str(KERNELS), "--clock-control", "none",
        "--metrics", ",".join(METRICS), "--print-units", "base", "--csv",
        "--log-file", str(log),
    )  # fmt: skip


def rows(log: Path) -> list[Json]:
    """Return the kernels of a log by their total time, the mean of every metric beside it.

    Host, process and folder names in the log are left out.
    """
    if not log.exists():
        return []
    launches: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with storage_errors(log), log.open(encoding="utf-8", errors="replace", newline="") as handle:
        for row in csv.DictReader(line for line in handle if line.startswith('"')):
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                value = float(row["Metric Value"].replace(",", ""))
                launches[row["ID"], row["Kernel Name"]][row["Metric Name"]] = value
    kernels: dict[str, list[dict[str, float]]] = defaultdict(list)
    for (_, name), metrics in launches.items():
        if DURATION in metrics:
            kernels[name].append(metrics)
    found = [_row(name, launched) for name, launched in kernels.items()]
    return sorted(found, key=lambda row: (-row["self_ns"], row["name"]))[:ROWS]


def _row(name: str, launches: list[dict[str, float]]) -> Json:
    spent = round(sum(metrics[DURATION] for metrics in launches))
    means = {
        metric: sum(one.get(metric, 0.0) for one in launches) / len(launches) for metric in METRICS
    }
    return {
        "name": name,
        "calls": len(launches),
        "self_ns": spent,
        "total_ns": spent,
        "metrics": means,
    }
