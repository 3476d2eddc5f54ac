"""The unscored pass at the end: every arm profiled on explore items, kept and never eligible.

On a CUDA device Nsight Compute looks, where it is installed; else, or where it sees no kernel, the
engine profiles itself.
"""

from __future__ import annotations

from dataclasses import replace

from harness.run import ncu
from harness.run.context import RunItem
from harness.run.privacy import scrubbed
from harness.run.process import WorkerDiedError, WorkerReplyError
from harness.run.seats import Live, Seat
from harness.run.session import Session
from harness.store.canonical import Json
from harness.store.digests import sha256_file
from harness.store.errors import NotReadyError, RefusedError
from harness.store.files import replace_json

FORMAT = 1
NO_PROFILE = "this engine can't be profiled"
NCU = "Nsight Compute"


def profile_pass(session: Session) -> None:
    """Profile the arms that are not profiled yet; an arm that can't be is recorded as such."""
    plan = session.context.plan
    if not plan.schedule.profile:
        return
    seats = [Seat(name, name, plan.schedule.launches_per_arm - 1) for name in plan.arms]
    for seat in seats:
        if seat.arm not in session.state.profiled:
            _profile(session, seat)


def _profile(session: Session, seat: Seat) -> None:
    arm, tool = seat.arm, ncu.tool(session.context.plan.model.device)
    found, instead = None, None
    if tool is not None:
        found, instead = _by_kernel(session, seat, tool)
    if found is None:
        try:
            found = _by_engine(session, seat)
        except (WorkerReplyError, WorkerDiedError) as error:
            session.journal.note("run", event="profiled", arm=arm, eligible=False, error=str(error))
            return
    if instead is not None:
        found["instead_of"] = scrubbed(f"{NCU}: {instead}")
    path = session.context.paths.profile(arm)
    replace_json(path, found)
    digest = sha256_file(path)
    session.journal.note(
        "run", event="profiled", arm=arm, eligible=False, file=path.name, sha256=digest
    )


def _by_engine(session: Session, seat: Seat) -> Json:
    session.crew.staff([seat])
    session.tell(f"profiling {seat.arm}")
    live = session.crew.at(seat)
    try:
        reply = _ask(session, live)
    except WorkerDiedError:
        session.crew.lost(live, "died while it was profiled")
        raise
    return _profile_of(session, live, str(reply.get("tool")), scrubbed(reply.get("rows")))


def _by_kernel(session: Session, seat: Seat, tool: str) -> tuple[Json | None, str | None]:
    """Return what `ncu` saw of a worker below it, or why that is nothing.

    Its log stays beside the worker's, unsealed: it names the machine.
    """
    start = session.state.starts[seat.worker] + 1
    log = session.context.paths.logs / f"ncu.{seat.arm}.{start}.csv"
    below = replace(seat, under=ncu.command(tool, log))
    session.tell(f"profiling {seat.arm} with {NCU}")
    try:
        session.crew.staff([below])
        live = session.crew.at(below)
        try:
            _ask(session, live, tool="ncu")
            live.process.finish(session.context.plan.limits.block_timeout_s)
        except WorkerDiedError:
            session.crew.lost(live, f"died below {NCU}")
            raise
    except (NotReadyError, RefusedError, WorkerReplyError, WorkerDiedError) as error:
        return None, str(error)
    finally:
        session.crew.close()
    seen = ncu.rows(log)
    if not seen:
        return None, "no kernel was seen"
    return _profile_of(session, live, NCU, scrubbed(seen)), None


def _ask(session: Session, live: Live, **more: str) -> Json:
    if live.hello.get("profile") is not True:
        raise WorkerReplyError("value", NO_PROFILE)
    plan = session.context.plan
    request = {
        "op": "profile",
        "id": 0,
        "items": [{"id": item.id, "prompt": item.prompt} for item in _items(session)],
        "timeout_s": plan.limits.item_timeout_s,
        **more,
    }
    live.process.request({"op": "reset"}, plan.limits.start_timeout_s)
    return live.process.request(request, plan.limits.block_timeout_s)


def _items(session: Session) -> list[RunItem]:
    return list(session.context.explore[: session.context.plan.schedule.block_items])


def _profile_of(session: Session, live: Live, tool: str, rows: object) -> Json:
    return {
        "format": FORMAT,
        "arm": live.seat.arm,
        "eligible": False,
        "items": [item.id for item in _items(session)],
        "tool": tool,
        "rows": rows,
    }
