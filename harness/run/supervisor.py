"""Execute a plan from wherever its journal stands to its end."""

from __future__ import annotations

from harness.plan.digest import plan_digest
from harness.run.aa import aa_phase
from harness.run.blocks import run_blocks
from harness.run.context import RunContext, RunOutcome
from harness.run.crew import Crew
from harness.run.environment import machine_id
from harness.run.interrupts import Interrupts
from harness.run.journal import Journal
from harness.run.lease import lease
from harness.run.privacy import scrubbed
from harness.run.profile_pass import profile_pass
from harness.run.samples import publish
from harness.run.session import Session
from harness.run.settle import sweep
from harness.run.state import RunState
from harness.store.canonical import Json
from harness.store.errors import (
    ChangedError,
    NotReadyError,
    RefusedError,
    StorageError,
    UsageError,
    VoidError,
)
from harness.store.files import read_json


def execute(context: RunContext) -> RunOutcome:
    """Run what is missing of a run, and return what became of it.

    Raises:
        RefusedError: another process drives the run, or an arm can't prove what it claims.
        VoidError: a frozen precondition is broken. NotReadyError: a worker does not start.
        StoppedError: SIGINT or SIGTERM; the run can be resumed. StorageError: the disk refused.
        ChangedError: the run was started with another plan or order, or its journal was altered.
    """
    _check(context)
    with (
        Interrupts() as interrupts,
        lease(context.paths, context.clock),
        Journal(context.paths, context.clock, interrupts) as journal,
    ):
        if journal.state.void is not None:
            raise VoidError(f"{context.paths.root.name}: {journal.state.void}")
        if not journal.state.finished:
            swept = sweep(context.paths, context.project)
            session = Session(context, journal, Crew(context, journal))
            _drive(session, interrupts, swept)
        return outcome(context, journal.state)


def _check(context: RunContext) -> None:
    manifest = read_json(context.paths.manifest)
    found = {"plan": plan_digest(context.plan), "order": context.order.digest}
    for name, value in found.items():
        if manifest.get(f"{name}_digest") != value:
            raise ChangedError(
                f"{context.paths.root.name}: started with {name} digest "
                f"{str(manifest.get(f'{name}_digest'))[:12]}…, found {value[:12]}…"
            )
    _check_node(context, manifest)
    needed = 1 + max(index for block in context.order.blocks for index in block.items)
    if len(context.items) < needed:
        raise UsageError(f"items: found {len(context.items)}, the order needs {needed}")
    schedule = context.plan.schedule
    explores = schedule.aa_blocks or schedule.warmup_visits
    if explores and len(context.explore) < schedule.block_items:
        raise UsageError(
            f"partitions.explore: found {len(context.explore)}, expected at least "
            f"schedule.block_items = {schedule.block_items} for A/A and warm-up"
        )


def _check_node(context: RunContext, manifest: Json) -> None:
    """Blocks are never pooled over nodes, so a run is resumed where it was started."""
    started = manifest.get("machine")
    here = machine_id(str(manifest["nonce"]))
    if not isinstance(started, dict) or started.get("id") != here:
        raise RefusedError(
            f"{context.paths.root.name}: was started on another machine; a run's blocks are never "
            "pooled over nodes, so resume it there, or give it up with `harness deviate --abandon`"
        )


def _drive(session: Session, interrupts: Interrupts, swept: int) -> None:
    try:
        _start(session, swept)
        aa_phase(session)
        run_blocks(session)
        profile_pass(session)
        session.crew.close()
        publish(session.context.paths)
        void = timing_void(session.context, session.state)
        reason = {} if void is None else {"timing_void": void}
        session.journal.note("run", event="finished", **reason)
    except StorageError:
        with interrupts.held(final=True):
            session.crew.abandon()
        raise
    except VoidError as error:
        with interrupts.held(final=True):
            publish(session.context.paths)
            session.journal.note("run", event="void", reason=str(error))
        raise
    finally:
        with interrupts.held(final=True):
            _close(session)


def _close(session: Session) -> None:
    try:
        session.crew.close()
    finally:
        session.crew.abandon()


def _start(session: Session, swept: int) -> None:
    journal = session.journal
    event = "resumed" if journal.state.started else "started"
    found = {"torn_bytes": journal.torn_bytes, "leftovers": swept}
    more = {name: value for name, value in found.items() if value}
    journal.note("run", event=event, role=session.context.role, **more)
    checks = scrubbed(session.context.selftest())
    if checks:
        journal.note("selftest", checks=checks)
    for check in checks:
        if not check["ok"]:
            raise NotReadyError(f"self-test: {check['name']}: {check['detail']}")


def timing_void(context: RunContext, state: RunState) -> str | None:
    """Return why no timing prediction of a finished run can be judged, or None."""
    interrupted = state.interrupted()
    replaced = state.replaced()
    open_blocks = [number for number in interrupted if number not in replaced]
    if open_blocks:
        return f"{len(open_blocks)} interrupted blocks have no spare left"
    share = len(interrupted) / len(context.order.planned)
    limit = context.plan.limits.interrupted_share
    if share > limit:
        return f"{share:.3g} of the blocks were interrupted, above the limit {limit:g}"
    return None


def outcome(context: RunContext, state: RunState) -> RunOutcome:
    """Return a run in numbers."""
    blocks = state.blocks.values()
    return RunOutcome(
        planned=len(context.order.planned),
        finished=sum(block.finished and not block.interrupted for block in blocks),
        interrupted=len(state.interrupted()),
        void=sum(block.void for block in blocks),
        spare_used=len(state.replaced()),
        deaths=state.deaths,
        timing_void=timing_void(context, state),
        aa=state.aa,
    )
