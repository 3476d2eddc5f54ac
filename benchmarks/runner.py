"""The runner's own cost: per trial, per record, a resume scan, a run of a million records.

`python benchmarks/runner.py [RECORDS]` prints one line per figure; the default is 1,000,000. What a
disk's sync takes is printed apart; TMPDIR chooses the disk.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
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


def overhead(folder: Path) -> None:
    """The harness's time per trial beside an engine that really takes its time."""
    options = {"real_sleep": True, "prefill_ms": 0.0, "ms_per_token": ENGINE_MS / 16,
               "tokens_per_item": 16}  # fmt: skip
    arms = {
        "pristine": {"role": "pristine", "backend": "fake", "options": options},
        "patched": {"role": "patched", "backend": "fake", "options": options},
    }
    plan = plan_of(arms, {"blocks": 6, "block_items": 4, "aa_blocks": 0, "launches_per_arm": 1})
    ends: list[int] = []
    context = new_run(folder, plan, progress=lambda _: ends.append(time.monotonic_ns()))
    execute(context)
    visits = kinds(journal(context.paths), "visit", phase="scored")
    gaps = [after - before for before, after in pairwise(ends)]
    trips = [v["load"]["roundtrip_ns"] for v in visits]
    engine = [v["timing"]["total_ns"] for v in visits]
    wire = statistics.median(t - e for t, e in zip(trips, engine, strict=True))
    per_visit = sorted(gap for gap in gaps if gap > min(engine))
    own = statistics.median(per_visit) - statistics.median(engine)
    trial = own / 4 / 1e6
    print(f"harness time per trial: {trial:.3f} ms beside {ENGINE_MS:.0f} ms of the engine "
          f"({trial / ENGINE_MS:.2%}); of it wire and sleep {wire / 4 / 1e6:.3f} ms")  # fmt: skip


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
        "load": {"load_average": 0.51, "roundtrip_ns": 1_100_000, "samples": 2, "worker_mib": 80.5},
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


def sync_ms(folder: Path) -> float:
    """Return what a sync of a few kilobytes takes on this disk."""
    folder.mkdir(parents=True, exist_ok=True)
    with FramedLog(folder / "sync.log") as log:
        spent = []
        for _ in range(50):
            began = time.perf_counter()
            log.append({"text": "x" * 4000})
            spent.append(time.perf_counter() - began)
    return 1e3 * statistics.median(spent)


def append_rate(folder: Path) -> None:
    """Records per second through the journal, each visit synced."""
    plan = plan_of(None, {"blocks": 300, "block_items": ITEMS, "aa_blocks": 0})
    made = list(groups(order_table(plan, plan_digest(plan), NONCE)))
    with Journal(RunPaths(folder), CLOCK, Interrupts()) as log:
        began = time.perf_counter()
        for group in made:
            log.append(*group)
        spent = time.perf_counter() - began
    count = sum(map(len, made))
    print(f"journal: {count / spent:,.0f} records/s, each visit of {ITEMS} items synced")
    with FramedLog(folder / "bulk.log") as bulk:
        flat = [record for group in made for record in group]
        began = time.perf_counter()
        for start in range(0, len(flat), 1000):
            bulk.append(*flat[start : start + 1000])
        spent = time.perf_counter() - began
    print(f"journal: {len(flat) / spent:,.0f} records/s, a sync per 1,000")


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
    print(f"a run of {count:,} records, {paths.journal.stat().st_size >> 20} MiB")
    step("resume scan", lambda: Journal(paths, CLOCK, Interrupts()).__exit__(None, None, None))
    step("seal", lambda: seal_run(paths))
    step("verify", lambda: verify(project, paths))
    step("analyse", lambda: analyse(plan, order, paths))


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


def step(name: str, work: Any) -> None:
    """Run one step and print its time and the peak memory so far."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {wall:.1f} s ({cpu:.1f} s CPU), peak memory so far {peak:.2f} GiB", flush=True)


def main(records: int = 1_000_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"a sync takes {sync_ms(Path(folder) / 'sync'):.3f} ms on this disk")
        overhead(Path(folder) / "overhead")
        append_rate(Path(folder) / "rate")
        big_run(Path(folder) / "big", records)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
