"""What order does to drift: A/A on the fake engine, 1 % slower per block, in three orders.

`python benchmarks/drift.py` prints the rejections and writes docs/figures/drift.svg.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.analysis import Interval, cr2_interval
from harness.backends.fake import FakeBackend

RUNS, BLOCKS, PER_BLOCK, JITTER = 200, 24, 0.01, 0.005
ORDERS = {"AABB": ("AABB",), "ABBA": ("ABBA",), "ABBA/BAAB": ("ABBA", "BAAB")}


def engine(seed: str) -> FakeBackend:
    """A fake engine that slows down by 1 % per block of four visits."""
    made = FakeBackend()
    options = {"drift_per_visit": math.expm1(math.log1p(PER_BLOCK) / 4), "jitter": JITTER}
    made.hello({"protocol": 1, "arm": {"role": "pristine", "options": options}, "model": {},
                "task": {"max_tokens": 16}, "threads": 1, "seed": seed})  # fmt: skip
    return made


def log_ratios(rows: Sequence[str], seed: str, blocks: int = BLOCKS) -> list[float]:
    """Return log(time of B / time of A) per block of an A/A run: both arms are the same engine."""
    one = engine(seed)
    found = []
    for block in range(blocks):
        logs: dict[str, list[float]] = {"A": [], "B": []}
        for position, arm in enumerate(rows[block % len(rows)]):
            items = [{"id": f"{block}-{n}", "prompt": f"{block} + {n}"} for n in range(2)]
            reply = one.generate(
                {"id": 4 * block + position, "items": items, "timeout_s": 60.0}  # type: ignore[typeddict-item]
            )
            one.reset()
            logs[arm].append(math.log(reply["timing"]["decode_ns"]))
        found.append(sum(logs["B"]) / 2 - sum(logs["A"]) / 2)
    return found


def run(rows: Sequence[str], seed: str) -> tuple[float, bool]:
    """Return the estimate of one A/A run and whether its 95 % interval rejects equality."""
    logs = log_ratios(rows, seed)
    found = cr2_interval(logs, [1.0] * len(logs), confidence="0.95")
    assert isinstance(found, Interval)
    return found.estimate, not found.low <= 0 <= found.high


def main() -> None:
    results = {
        name: [run(rows, f"{name} {n}") for n in range(RUNS)] for name, rows in ORDERS.items()
    }
    for name, runs in results.items():
        mean = math.fsum(estimate for estimate, _ in runs) / RUNS
        rejected = sum(reject for _, reject in runs)
        print(
            f"{name}: mean bias {math.expm1(mean):+.3%}, rejects equality in {rejected} of {RUNS}"
        )
    draw(results, Path(__file__).parents[1] / "docs" / "figures" / "drift.svg")


def draw(results: dict[str, list[tuple[float, bool]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "drift"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
    for place, runs in enumerate(results.values()):
        heights = [place + ((n * 0.618) % 1 - 0.5) * 0.5 for n in range(len(runs))]
        axes.scatter([math.expm1(e) * 100 for e, _ in runs], heights, s=6, color="0.45", lw=0)
        rejected = sum(reject for _, reject in runs)
        axes.text(1.02, place, f"{rejected} of {len(runs)} reject", va="center",
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(results)), list(results))
    axes.set_xlabel("apparent difference between an engine and itself, in percent")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
