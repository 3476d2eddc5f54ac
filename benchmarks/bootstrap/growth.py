"""How the time of the cluster bootstrap grows with rows, clusters, metrics and resamples.

    python benchmarks/bootstrap/growth.py

Writes `growth.json` and the drawing `growth.svg` beside itself. One thing grows at a time, the rest
stays at 200,000 rows, 1,000 clusters, 10 metrics and 10,000 resamples. Each point is the least CPU
time of three runs of the whole way: labels and rows to intervals with their Monte-Carlo errors.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402 - threads must be set first

from harness import analysis as st  # noqa: E402

HERE = Path(__file__).parent
BASE = {"rows": 200_000, "clusters": 1_000, "metrics": 10, "resamples": 10_000}
GROWS = {
    "rows": (25_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000),
    "clusters": (10, 30, 100, 300, 1_000, 3_000, 10_000),
    "metrics": (1, 2, 5, 10, 20, 40, 80),
    "resamples": (1_250, 2_500, 5_000, 10_000, 20_000, 40_000),
}
KEY = st.resampling_key("0" * 64, "growth")
REPEATS = 3


def seconds(rows: int, clusters: int, metrics: int, resamples: int) -> float:
    """Return the least CPU time of the whole way."""
    draw = np.random.Generator(np.random.Philox(30))
    labels = draw.integers(0, clusters, rows)
    labels[:clusters] = np.arange(clusters)
    values = np.asfortranarray(draw.integers(1, 10**9, (rows, metrics)))
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        found = st.cluster_sums(st.clusters_of(labels), values)
        st.percentile_bootstraps(found.sums, found.clusters.sizes, key=KEY, resamples=resamples)
        times.append(time.process_time() - start)
    return min(times)


def measured() -> dict[str, list[list[float]]]:
    seconds(**BASE)  # the first run pays for what all share
    return {
        name: [[size, seconds(**{**BASE, name: size})] for size in sizes]
        for name, sizes in GROWS.items()
    }


def slope(points: list[list[float]]) -> float:
    """Return the exponent of growth over the last two doublings or so: log time over log size."""
    (x0, y0), (x1, y1) = points[-3], points[-1]
    return float(np.log(y1 / y0) / np.log(x1 / x0))


def draw(found: dict[str, list[list[float]]], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    style: dict[Any, Any] = {"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(style):
        figure = Figure(figsize=(9, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        every = figure.subplots(1, len(found), sharey=True)
        for axes, (name, points) in zip(every, found.items(), strict=True):
            sizes, times = zip(*points, strict=True)
            axes.loglog(sizes, times, "o-", color="#0072b2", markersize=4)
            line = [times[-1] * size / sizes[-1] for size in sizes]
            axes.loglog(sizes, line, ":", color="#5f6873", linewidth=1)
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(name)
            axes.set_ylim(0.005, 2)
            axes.grid(color="#d9dce0", linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
        every[0].set_ylabel("CPU seconds")
        every[0].set_title("dotted: proportional", loc="left", fontsize=8, color="#5f6873")
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    found = measured()
    (HERE / "growth.json").write_text(json.dumps({"base": BASE, "seconds": found}, indent=1) + "\n")
    draw(found, HERE / "growth.svg")
    for name, points in found.items():
        line = "  ".join(f"{size:g}: {time_s:.3f}" for size, time_s in points)
        print(f"{name:10} {line}  (exponent {slope(points):.2f})")


if __name__ == "__main__":
    main()
