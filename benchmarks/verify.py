"""Speed of `harness verify` against its floor, as ratios taken in one run.

    python benchmarks/verify.py [--gigabytes 2] [--records 10000] [--repeats 3]

The floor for locked and sealed bytes is `sha256sum` on the same files, cached alike; a ledger has a
budget in seconds. Memory is the largest resident set of the verifying process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.ledger.chain import GENESIS
from harness.ledger.records import ResultOpened, body_json
from harness.store.canonical import canonical
from harness.store.clock import CLOCK
from harness.store.digests import sha256_bytes

PLAN = """
study: big
stage: confirm
question: how_fast
title: a plan with a large checkpoint
model: {name: checkpoint, loops: 1}
task: {max_tokens: 8}
partitions: {source: arithmetic, seed: big, confirm: 24, explore: 8}
arms:
  pristine: {role: pristine, backend: fake, options: {ms_per_token: 1.0, jitter: 0.02}}
  patched: {role: patched, backend: fake, options: {ms_per_token: 1.0, jitter: 0.02, speedup: 1.6}}
schedule: {design: abba_baab, block_items: 2, blocks: 12, launches_per_arm: 1}
measurements: [generation]
limits: {}
predictions:
  - id: P1
    claim: faster
    estimand: {kind: log_ratio, of: decode_seconds, cluster: block}
    region: [1.2, null]
    family: primary
    confidence: 0.9
    min_clusters: 8
"""


def harness(folder: Path, *words: str) -> float:
    """Run a command in a process of its own and return its seconds."""
    code = "from harness.cli.main import entry; entry()"
    return timed([sys.executable, "-c", code, *words], folder)


def timed(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[-2:])}: {done.returncode}: {done.stderr}")
    return seconds


def peak_mib(folder: Path, *words: str) -> float:
    """Return the largest resident set of a command."""
    code = "from harness.cli.main import entry; entry()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=folder, stdout=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_maxrss / 1024


def median(repeats: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeats))


def large_study(folder: Path, size: int) -> list[Path]:
    """A finished study whose lock covers `size` bytes of checkpoint; returns those files."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "big.yaml").write_text(PLAN, encoding="utf-8")
    model = folder / "checkpoint"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    shards, chunk = 8, os.urandom(1 << 20)
    for number in range(shards):
        with (model / f"shard{number}.bin").open("wb") as out:
            for _ in range(max(1, size // shards >> 20)):
                out.write(chunk)
    harness(folder, "freeze", "big")
    harness(folder, "run", "big")
    return sorted(model.iterdir())


def long_ledger(folder: Path, count: int) -> None:
    """A linked ledger, written directly: appending one by one reads it as often."""
    place = folder / "ledgers" / "long"
    place.mkdir(parents=True)
    last = GENESIS
    for n in range(1, count + 1):
        body = ResultOpened(plan="p", run_id=f"0001-{n:012x}")
        value = {"format": 1, "n": n, "prev": last, "kind": body.KIND, "at": CLOCK.utc()}
        data = canonical({**value, "body": body_json(body)}) + b"\n"
        (place / f"{n:08d}.json").write_bytes(data)
        last = sha256_bytes(data)
    head = canonical({"count": count, "digest": last}) + b"\n"
    (folder / "ledgers" / "long.head.json").write_bytes(head)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--gigabytes", type=float, default=2.0)
    made.add_argument("--records", type=int, default=10_000)
    made.add_argument("--repeats", type=int, default=3)
    args = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as name:
        root = Path(name)
        files = large_study(root / "large", int(args.gigabytes * (1 << 30)))
        size = sum(path.stat().st_size for path in files)
        floor = median(args.repeats, lambda: timed(["sha256sum", *map(str, files)], root / "large"))
        ours = median(args.repeats, lambda: harness(root / "large", "verify"))
        memory = peak_mib(root / "large", "verify")
        long_ledger(root / "long", args.records)
        ledger = median(args.repeats, lambda: harness(root / "long", "verify"))
        start = median(args.repeats, lambda: harness(root / "long", "--version"))
    print(
        json.dumps(
            {
                "bytes": size,
                "sha256sum_s": round(floor, 3),
                "verify_s": round(ours, 3),
                "ratio": round(ours / floor, 3),
                "verify_peak_mib": round(memory, 1),
                "ledger_records": args.records,
                "ledger_s": round(ledger, 3),
                "start_s": round(start, 3),
                "load": os.getloadavg()[0],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
