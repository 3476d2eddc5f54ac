"""Start, watch and kill runners; check what must hold of a journal whatever happened."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from harness.plan.digest import plan_digest
from harness.plan.order import order_table
from harness.plan.schema import Plan
from harness.prereg.schedule import check_schedule
from harness.run.folder import run_folders, unfinished
from harness.run.state import RunState
from harness.store.canonical import Json
from harness.store.framed import scan
from harness.store.paths import Project, RunPaths
from tests.run.bench import NONCE, kinds, seal_run

ROOT = Path(__file__).parents[2]


def start(folder: Path, settings: Json) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.run.driver", str(folder), json.dumps(settings)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(folder: Path, settings: Json) -> tuple[int, str]:
    driver = start(folder, settings)
    _, errors = driver.communicate(timeout=120)
    return driver.returncode, errors


def workers(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return psutil.Process(driver.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process], within_s: float = 5.0) -> bool:
    """Whether all of them end; a zombie that nobody has reaped yet has ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not any(alive(process) for process in processes):
            return True
        time.sleep(0.02)
    return False


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_visits(folder: Path, plan: Plan, count: int, driver: subprocess.Popen[str]) -> None:
    """Return once the journal holds `count` scored visits."""
    until = time.monotonic() + 60
    while time.monotonic() < until and driver.poll() is None:
        paths = unfinished(Project(folder), plan)
        if paths and paths.journal.exists():
            records = scan(paths.journal).records
            if len(kinds(records, "visit", phase="scored")) >= count:
                return
        time.sleep(0.01)


class Frames:
    """What had been synced at each kill; all of it must stand in the journal for ever."""

    def __init__(self) -> None:
        self.snapshots: list[bytes] = []

    def take(self, paths: RunPaths) -> None:
        if paths.journal.exists():
            self.snapshots.append(b"".join(_acknowledged(paths.journal)))

    def check(self, paths: RunPaths) -> None:
        data = paths.journal.read_bytes()
        assert all(data.startswith(snapshot) for snapshot in self.snapshots)


def _acknowledged(journal: Path) -> list[bytes]:
    """Whole frames up to the last one that closes an append."""
    found = scan(journal)
    count = len(found.records)
    while count and found.records[count - 1]["kind"] == "trial":
        count -= 1
    return found.frames[:count]


def check_finished(paths: RunPaths, plan: Plan) -> dict[str, Any]:
    """Assert everything that must hold of a finished run, and return its seal."""
    records = scan(paths.journal).records
    order = order_table(plan, plan_digest(plan), NONCE)
    state = RunState()
    for record in records:
        state.apply(record)
    assert state.finished
    assert check_schedule("journal.log", records, order, None) == []
    called = {block.block for block in order.planned} | set(state.replaced().values())
    for block in (block for block in order.blocks if block.block in called):
        recorded = state.blocks[block.block]
        assert recorded.finished
        assert {(v.arm, 1) for v in block.visits} <= recorded.visits
        if not recorded.interrupted:
            assert {(v.arm, v.visit) for v in block.visits} == recorded.visits
    open_blocks = set(state.interrupted()) - set(state.replaced())
    assert not open_blocks or len(state.replaced()) == len(order.spares)
    for visit in kinds(records, "visit", phase="scored"):
        if not visit["timed"]:
            assert visit["key"]["block"] in state.interrupted()
    return dict(seal_run(paths))


def runs(folder: Path) -> list[RunPaths]:
    return run_folders(Project(folder), "tiny")
