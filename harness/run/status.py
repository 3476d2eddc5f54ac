"""How a run stands, from its journal and its lease alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from harness.plan.digest import plan_from_json
from harness.plan.order import order_table
from harness.run.lease import held
from harness.run.progress import counted
from harness.run.state import RunState
from harness.store.canonical import Json
from harness.store.clock import CLOCK, Clock
from harness.store.errors import ChangedError
from harness.store.files import read_json
from harness.store.framed import read_framed
from harness.store.paths import RunPaths

Word = Literal["running", "aborted", "finished", "void", "sealed"]


@dataclass(frozen=True)
class RunStatus:
    """One run at a glance; visits include A/A and the spares called in so far."""

    run_id: str
    role: str
    word: Word
    phase: Literal["start", "aa", "blocks", "end"]
    done: int
    total: int
    blocks_finished: int
    blocks_planned: int
    interrupted: int
    void: int
    deaths: int
    eta_s: float | None
    """Seconds to go at the pace since the last start; None unless it is running."""
    last_utc: str | None
    """Stamp of the last record that has one."""


def status(paths: RunPaths, clock: Clock = CLOCK) -> RunStatus:
    """Return how a run stands; nothing is locked for longer than a moment, and nothing is written.

    Raises:
        IncompleteError: there is no such run. ChangedError: its manifest or journal was altered.
    """
    manifest = read_json(paths.manifest)
    plan_data = manifest.get("plan_json")
    plan = plan_from_json(plan_data if isinstance(plan_data, dict) else {})
    order = order_table(plan, str(manifest["plan_digest"]), str(manifest["nonce"]))
    if order.digest != manifest["order_digest"]:
        raise ChangedError(f"{paths.root.name}: run.json: its order is not that of its plan")
    records = read_framed(paths.journal) if paths.journal.exists() else []
    state = RunState()
    for record in records:
        state.apply(record)
    total, done = counted(state, order, plan)
    word = _word(paths, state)
    blocks = state.blocks.values()
    return RunStatus(
        run_id=paths.root.name,
        role=str(manifest["role"]),
        word=word,
        phase=_phase(state, plan.schedule.aa_blocks),
        done=done,
        total=total,
        blocks_finished=sum(block.finished for block in blocks),
        blocks_planned=len(order.planned),
        interrupted=len(state.interrupted()),
        void=sum(block.void for block in blocks),
        deaths=state.deaths,
        eta_s=_eta(records, total - done, clock) if word == "running" else None,
        last_utc=next((stamp for r in reversed(records) if (stamp := _stamp(r))), None),
    )


def _word(paths: RunPaths, state: RunState) -> Word:
    if paths.seal.exists():
        return "sealed"
    if state.void is not None:
        return "void"
    if state.finished:
        return "finished"
    return "running" if held(paths) else "aborted"


def _phase(state: RunState, aa_blocks: int) -> Literal["start", "aa", "blocks", "end"]:
    if state.finished or state.void:
        return "end"
    if state.blocks:
        return "blocks"
    return "aa" if aa_blocks and state.started else "start"


def _eta(records: list[Json], left: int, clock: Clock) -> float | None:
    """Return the time to go at the mean pace of the visits since the run was last started."""
    starts = [place for place, record in enumerate(records) if record["kind"] == "run"]
    recent = records[starts[-1] :] if starts else []
    visits = [r for r in recent if r["kind"] == "visit" and r["phase"] != "warmup"]
    if not visits:
        return None
    spent = (_time(clock.utc()) - _time(str(visits[0]["started_utc"]))).total_seconds()
    return round(max(0.0, spent) / len(visits) * left, 1)


def _stamp(record: Json) -> str | None:
    stamp = record.get("at") or record.get("started_utc")
    return None if stamp is None else str(stamp)


def _time(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)
