"""The unscored pass at the end: every arm profiled on explore items, kept and never eligible."""

from __future__ import annotations

from harness.run.privacy import scrubbed
from harness.run.process import WorkerDiedError, WorkerReplyError
from harness.run.seats import Live, Seat
from harness.run.session import Session
from harness.store.canonical import Json
from harness.store.digests import sha256_file
from harness.store.files import replace_json

FORMAT = 1
NO_PROFILE = "this engine can't be profiled"


def profile_pass(session: Session) -> None:
    """Profile the arms that are not profiled yet; an arm that can't be is recorded as such."""
    plan = session.context.plan
    if not plan.schedule.profile:
        return
    seats = [Seat(name, name, plan.schedule.launches_per_arm - 1) for name in plan.arms]
    for seat in seats:
        if seat.arm not in session.state.profiled:
            session.crew.staff([seat])
            session.tell(f"profiling {seat.arm}")
            _profile(session, session.crew.at(seat))


def _profile(session: Session, live: Live) -> None:
    arm = live.seat.arm
    try:
        found = _asked(session, live)
    except (WorkerReplyError, WorkerDiedError) as error:
        session.journal.note("run", event="profiled", arm=arm, eligible=False, error=str(error))
        if isinstance(error, WorkerDiedError):
            session.crew.lost(live, "died while it was profiled")
        return
    path = session.context.paths.profile(arm)
    replace_json(path, found)
    digest = sha256_file(path)
    session.journal.note(
        "run", event="profiled", arm=arm, eligible=False, file=path.name, sha256=digest
    )


def _asked(session: Session, live: Live) -> Json:
    if live.hello.get("profile") is not True:
        raise WorkerReplyError("value", NO_PROFILE)
    plan, explore = session.context.plan, session.context.explore
    items = explore[: plan.schedule.block_items]
    request = {
        "op": "profile",
        "id": 0,
        "items": [{"id": item.id, "prompt": item.prompt} for item in items],
        "timeout_s": plan.limits.item_timeout_s,
    }
    live.process.request({"op": "reset"}, plan.limits.start_timeout_s)
    reply = live.process.request(request, plan.limits.block_timeout_s)
    return {
        "format": FORMAT,
        "arm": live.seat.arm,
        "eligible": False,
        "items": [item.id for item in items],
        "tool": str(reply.get("tool")),
        "rows": scrubbed(reply.get("rows")),
    }
