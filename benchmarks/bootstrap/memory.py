"""Memory of `harness analyze --table` on Parquet files that grow, beside reading them whole.

    python benchmarks/bootstrap/memory.py [--largest ROWS]

Each size runs in a process of its own; what counts is the largest resident size above that of the
same process on a table of a thousand rows. Writes `memory.json` beside itself.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
GROUP = 65_536
BLOCKS = 500
EXTRA = 12
PLAN = {
    "arms": {"pristine": "A", "patched": "B"},
    "columns": {"block": "batch"},
    "predictions": [
        {
            "id": name,
            "claim": "faster",
            "estimand": {"kind": kind, "of": of, "cluster": "block"},
            "region": [1.0, None],
            "family": "secondary",
            "confidence": 0.5,
            "min_clusters": 50,
        }
        for name, kind, of in (("P1", "log_ratio", "seconds"), ("P2", "ratio_of_sums", "ns"))
    ],
}


def write(path: Path, rows: int) -> None:
    """Write long rows, pair by pair, with columns that nobody asks for, as real tables have."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    draw = np.random.Generator(np.random.Philox(31))
    writer = None
    for start in range(0, rows, GROUP):
        place = np.arange(start, min(start + GROUP, rows))
        seconds = draw.lognormal(0, 1, len(place))
        columns = {
            "item": pa.array([f"question-{one // 2:09d}" for one in place.tolist()]),
            "arm": pa.array(np.where(place % 2, "B", "A")),
            "batch": place // 2 % BLOCKS,
            "seconds": seconds,
            "ns": (seconds * 1e9).astype(np.int64),
            **{f"other_{i}": draw.random(len(place)) for i in range(EXTRA)},
        }
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def one(path: Path, how: str) -> None:
    """Analyse (or only read) one file and print seconds and the largest resident size."""
    start = time.process_time()
    if how == "harness":
        from harness.measure.table import evaluate_table
        from harness.measure.table_plan import table_plan
        from harness.measure.table_source import open_table

        evaluate_table(open_table(path), table_plan(PLAN))
    else:
        import pandas as pd

        pd.read_parquet(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_s": time.process_time() - start, "peak": peak}))


def run(path: Path, how: str) -> dict[str, float]:
    result = subprocess.run(
        [sys.executable, __file__, "--one", str(path), "--how", how],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    found: dict[str, float] = json.loads(result.stdout)
    return found


def measured(largest: int) -> list[dict[str, float]]:
    sizes, found = [largest >> shift for shift in (6, 4, 2, 0)], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write(path, 1_000)
        least = {how: run(path, how)["peak"] for how in ("harness", "pandas")}
        for rows in sizes:
            write(path, rows)
            ours, whole = run(path, "harness"), run(path, "pandas")
            found.append(
                {
                    "rows": rows,
                    "file_mb": path.stat().st_size / 1e6,
                    "cpu_s": ours["cpu_s"],
                    "peak_mb": (ours["peak"] - least["harness"]) / 1e6,
                    "whole_mb": (whole["peak"] - least["pandas"]) / 1e6,
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, default=1 << 22)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--how", default="harness", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one is not None:
        one(chosen.one, chosen.how)
        return
    found = measured(chosen.largest)
    (HERE / "memory.json").write_text(json.dumps(found, indent=1) + "\n")
    for row in found:
        print("  ".join(f"{name} {value:,.4g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
