"""The runner's own cost beside the floor: per trial, per record, and over a million records.

`python benchmarks/runner.py [RECORDS]` prints one line per figure and all of them as JSON at the
end; the default is 1,000,000. The floor is measured in the same run: a bare pipe to a child and
back, a bare synced write of the same bytes, a bare pass over the same frames. TMPDIR chooses the
disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.plan.digest import plan_digest
from harness.plan.order import order_table
from harness.run.folder import create_run
from harness.run.interrupts import Interrupts
from harness.run.journal import Journal
from harness.run.supervisor import execute
from harness.store.clock import CLOCK
from harness.store.framed import FramedLog, frame
from harness.store.paths import Project, RunPaths
from tests.run.bench import NONCE, journal, kinds, new_run, plan_of, seal_run

ITEMS = 8
ENGINE_MS = 100.0


FOUND: dict[str, float] = {}
"""Every figure by name."""


def told(name: str, value: float, text: str) -> None:
    """Keep a figure and print its line."""
    FOUND[name] = value
    print(text, flush=True)


def median_ms(work: Callable[[], object], times: int = 60) -> float:
    """Return the median time of some work in milliseconds."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return 1e3 * statistics.median(spent)


ECHO = "import os\nwhile (data := os.read(0, 65536)): os.write(1, data)"


def pipe_ms(line: bytes) -> float:
    """Return what one line to a bare child and back takes."""
    with subprocess.Popen(
        [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def trip() -> None:
            os.write(child.stdin.fileno(), line)
            back = 0
            while back < len(line):
                back += len(os.read(child.stdout.fileno(), 65536))

        trip()
        found = median_ms(trip)
        child.stdin.close()
    return found


def write_ms(folder: Path, data: bytes) -> float:
    """Return what a bare synced append of these bytes takes on this disk."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "bare").open("ab", buffering=0) as handle:

        def write() -> None:
            handle.write(data)
            os.fsync(handle.fileno())

        return median_ms(write)


def overhead(folder: Path) -> None:
    """The harness's time per trial beside an engine that really takes its time, and the floor."""
    options = {"real_sleep": True, "prefill_ms": 0.0, "ms_per_token": ENGINE_MS / 16,
               "tokens_per_item": 16}  # fmt: skip
    arms = {
        "pristine": {"role": "pristine", "backend": "fake", "options": options},
        "patched": {"role": "patched", "backend": "fake", "options": options},
    }
    items = 4
    plan = plan_of(arms, {"blocks": 6, "block_items": items, "aa_blocks": 0, "launches_per_arm": 1})
    ends: list[int] = []
    cpus: list[float] = []

    def tick(_: object) -> None:
        ends.append(time.monotonic_ns())
        cpus.append(time.process_time())

    context = new_run(folder, plan, progress=tick)
    execute(context)
    records = journal(context.paths)
    visits = kinds(records, "visit", phase="scored")
    own = 1e3 * statistics.median(after - before for before, after in pairwise(cpus)) / items
    gaps = [after - before for before, after in pairwise(ends)]
    trips = [v["load"]["roundtrip_ns"] for v in visits]
    engine = [v["timing"]["total_ns"] for v in visits]
    wire = statistics.median(t - e for t, e in zip(trips, engine, strict=True)) / items / 1e6
    per_visit = sorted(gap for gap in gaps if gap > min(engine))
    trial = (statistics.median(per_visit) - statistics.median(engine)) / items / 1e6
    last = records.index(visits[-1])
    synced = b"".join(map(frame, records[last - items : last + 1]))
    floor = (pipe_ms(b"x" * 2000 + b"\n") + write_ms(folder / "floor", synced)) / items
    told("trial_ms", trial, f"harness time per trial: {trial:.3f} ms beside {ENGINE_MS:.0f} ms of "
         f"the engine ({trial / ENGINE_MS:.2%}); of it wire and sleep {wire:.3f} ms")  # fmt: skip
    told("trial_cpu_ms", own, f"  the runner's CPU time per trial: {own:.3f} ms")  # fmt: skip
    told("trial_floor_ms", floor, f"  floor, a pipe there and back and a synced write: {floor:.3f} "
         f"ms; ratio {trial / floor:.1f}")  # fmt: skip


def visit_group(block: int, arm: str, visit: int, position: int, seq: int) -> list[dict[str, Any]]:
    """The records of one visit as the runner writes them."""
    common = {"phase": "scored", "launch": 0, "start": 1}
    numbers = {"arm": arm, "visit": visit, "attempt": 1}
    times = dict.fromkeys(("prefill_ns", "decode_ns", "total_ns", "prefill_cpu_ns", "decode_cpu_ns",
                           "total_cpu_ns"), 1_000_000 + (seq * 7919) % 100_000)  # fmt: skip
    trials = [
        {
            "kind": "trial", **common, "key": {"item": f"item-{block * ITEMS + n}", **numbers},
            "block": block, "status": "ok", "token_ids": [(seq + n + k) % 997 for k in range(16)],
            "text": f" #### {block * ITEMS + n}", "prompt_tokens": 33, "finish": "stop",
            "counters": {"passes": 16, "drafted": 0, "accepted": 0}, "cache_bytes": "12345",
            "score": {"status": "right", "answer": str(block * ITEMS + n)}, "recovered": False,
            "seq": seq + n,
        }
        for n in range(ITEMS)
    ]  # fmt: skip
    return [*trials, {
        "kind": "visit", **common, "key": {"block": block, **numbers}, "position": position,
        "arm": arm, "worker": arm, "status": "ok", "timing": times, "tokens": 16 * ITEMS,
        "cache": {"entries_before": 0, "hits": 0, "peak_bytes": "0"}, "counters": {},
        "patch_counters": {"patched_calls": 0 if arm == "pristine" else 8},
        "load": {"load_average": 0.51, "roundtrip_ns": 1_100_000, "samples": 2, "workers_mib": 80},
        "started_utc": "2026-01-01T00:00:00.000000Z", "timed": True, "seq": seq + ITEMS,
    }]  # fmt: skip


def groups(order: Any) -> Iterator[list[dict[str, Any]]]:
    """Every append of a finished run."""
    seq = 0

    def one(kind: str, **fields: Any) -> list[dict[str, Any]]:
        nonlocal seq
        seq += 1
        return [{"kind": kind, "at": "2026-01-01T00:00:00.000000Z", **fields, "seq": seq - 1}]

    yield one("run", event="started", role="unregistered")
    for block in order.planned:
        yield one("block", block=block.block, event="started")
        for visit in block.visits:
            group = visit_group(block.block, visit.arm, visit.visit, visit.position, seq)
            seq += len(group)
            yield group
        yield one("block", block=block.block, event="finished")
    yield one("run", event="finished")


def timed_appends(folder: Path, made: list[list[dict[str, Any]]]) -> tuple[float, float]:
    """Return wall and CPU time of appending these groups to a new journal."""
    with Journal(RunPaths(folder), CLOCK, Interrupts()) as log:
        began, cpu = time.perf_counter(), time.process_time()
        for group in made:
            log.append(*group)
        return time.perf_counter() - began, time.process_time() - cpu


def append_rate(folder: Path) -> None:
    """Records per second through the journal, best of five, beside bare synced writes."""
    folder.mkdir()
    plan = plan_of(None, {"blocks": 300, "block_items": ITEMS, "aa_blocks": 0})
    made = list(groups(order_table(plan, plan_digest(plan), NONCE)))
    count = sum(map(len, made))
    walls, cpus = zip(*(timed_appends(folder / str(n), made) for n in range(5)), strict=True)
    rate, cpu_rate = count / min(walls), count / min(cpus)
    ready = [b"".join(map(frame, group)) for group in made]
    with (folder / "bare").open("ab", buffering=0) as bare:
        began = time.perf_counter()
        for data in ready:
            bare.write(data)
            os.fsync(bare.fileno())
        floor = count / (time.perf_counter() - began)
    told("append_per_s", rate, f"journal: {rate:,.0f} records/s, a sync per visit of {ITEMS} items")
    told("append_floor_per_s", floor, f"  floor, bare synced writes of the same bytes: "
         f"{floor:,.0f} records/s; ratio {floor / rate:.2f}")  # fmt: skip
    told("append_per_cpu_s", cpu_rate, f"journal: {cpu_rate:,.0f} records per second of CPU time")
    with FramedLog(folder / "bulk.log") as bulk:
        flat = [record for group in made for record in group]
        began = time.perf_counter()
        for start in range(0, len(flat), 1000):
            bulk.append(*flat[start : start + 1000])
        rate = len(flat) / (time.perf_counter() - began)
    told("bulk_per_s", rate, f"journal: {rate:,.0f} records/s, a sync per 1,000")


def bare_pass(path: Path) -> None:
    """What no reader of the frames can do without: each line read, and hashed by itself."""
    with path.open("rb") as handle:
        for line in handle:
            hashlib.sha256(line[26:-1]).digest()


def big_run(folder: Path, records: int) -> None:
    """Write a finished run of so many records, then resume, seal, verify and analyse it."""
    per_block = 4 * (ITEMS + 1) + 2
    blocks = max(8, records // per_block)
    plan = plan_of(None, {"blocks": blocks, "block_items": ITEMS, "aa_blocks": 0,
                          "launches_per_arm": 1, "spare_blocks": 0})  # fmt: skip
    project = Project(folder)
    paths = create_run(project, plan, role="unregistered", nonce=NONCE, lock_digest=None)
    order = order_table(plan, plan_digest(plan), NONCE)
    count = 0
    with paths.journal.open("wb") as handle:
        for group in groups(order):
            handle.write(b"".join(map(frame, group)))
            count += len(group)
    told("records", count,
         f"a run of {count:,} records, {paths.journal.stat().st_size >> 20} MiB")  # fmt: skip
    floor = step("floor", lambda: bare_pass(paths.journal))
    for name, work in (
        ("resume scan", lambda: Journal(paths, CLOCK, Interrupts()).__exit__(None, None, None)),
        ("seal", lambda: seal_run(paths)),
        ("verify", lambda: verify(project, paths)),
        ("analyse", lambda: analyse(plan, order, paths)),
    ):
        spent = step(name, work)
        print(f"  {spent / floor:.1f} times the floor, one pass that hashes every frame")


def verify(project: Project, paths: RunPaths) -> None:
    from harness.ledger.chain import Chain
    from harness.ledger.records import history
    from harness.prereg.runs import check_run

    found = check_run(project, "tiny", paths.root.name, history(Chain(paths.chain)), None)
    assert all(one.code == 0 for one in found), found[:3]


def analyse(plan: Any, order: Any, paths: RunPaths) -> None:
    from harness.measure.evaluate import Scope, evaluate
    from harness.store.framed import read_framed

    evaluate(plan, order, read_framed(paths.journal), Scope("r", "unregistered", 1, None, "cpu"))


def step(name: str, work: Callable[[], object]) -> float:
    """Run one step, print its time and the peak memory so far, and return its CPU time."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    key = name.replace(" ", "_")
    FOUND[f"{key}_cpu_s"], FOUND[f"{key}_peak_gib"] = cpu, peak
    told(f"{key}_s", wall,
         f"{name}: {wall:.1f} s ({cpu:.1f} s CPU), peak memory so far {peak:.2f} GiB")  # fmt: skip
    return cpu


def main(records: int = 1_000_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sync = write_ms(Path(folder) / "sync", b"x" * 4000)
        told("sync_ms", sync, f"a sync takes {sync:.3f} ms on this disk")
        overhead(Path(folder) / "overhead")
        append_rate(Path(folder) / "rate")
        big_run(Path(folder) / "big", records)
    print(json.dumps({name: round(value, 4) for name, value in FOUND.items()}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
