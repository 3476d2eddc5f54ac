"""The A/A phase: two pristine workers, started apart, must agree in time before anything counts."""

from __future__ import annotations

import math
from itertools import count

from harness.plan.schema import Plan
from harness.plan.visible import tells_cpu_time
from harness.run.process import WorkerDiedError
from harness.run.progress import AA_VISITS
from harness.run.seats import Seat
from harness.run.session import Session
from harness.run.visits import Assignment
from harness.store.canonical import Json
from harness.store.errors import NotReadyError, VoidError

FIRST, SECOND = "aa_1", "aa_2"
_DEATHS = 3


def aa_phase(session: Session) -> None:
    """Run the A/A blocks that are still missing, then judge them once.

    A block that was interrupted is left as it is, and a new one takes its place.

    Raises:
        VoidError: the interval is not within ±δ. NotReadyError: pristine workers keep dying.
    """
    plan, state = session.context.plan, session.state
    if plan.schedule.aa_blocks == 0 or state.aa is not None:
        return
    deaths = 0
    first_free = max(state.aa_visits, default=-1) + 1
    for block in count(first_free):
        if len(_complete(session)) >= plan.schedule.aa_blocks:
            break
        try:
            _run_block(session, block)
        except WorkerDiedError as error:
            deaths += 1
            if deaths == _DEATHS:
                raise NotReadyError(
                    f"A/A: pristine workers died {deaths} times: {error}"
                ) from error
    _judge(session)


def _run_block(session: Session, block: int) -> None:
    context = session.context
    arm = next(name for name, spec in context.plan.arms.items() if spec.role == "pristine")
    seats = {name: Seat(name, arm, 0) for name in (FIRST, SECOND)}
    session.crew.staff(list(seats.values()))
    pool, size = context.explore, context.plan.schedule.block_items
    items = tuple(pool[(block * size + place) % len(pool)] for place in range(size))
    order = (FIRST, SECOND, SECOND, FIRST) if block % 2 == 0 else (SECOND, FIRST, FIRST, SECOND)
    for position, name in enumerate(order):
        session.tell(f"A/A block {block + 1}")
        visit = order[: position + 1].count(name)
        number = block * AA_VISITS + position
        session.visit(seats[name], Assignment("aa", block, visit, 1, position, number, items))


def _complete(session: Session) -> list[int]:
    visits = session.state.aa_visits
    return [block for block in sorted(visits) if len(visits[block]) == AA_VISITS]


def clock_of(plan: Plan) -> str:
    """Return the `timing` field that A/A compares: CPU time on a CPU, where wall times scatter."""
    cpu = plan.model.device == "cpu" and tells_cpu_time(plan)
    return "decode_cpu_ns" if cpu else "decode_ns"


def _log_ratio(visits: list[Json], clock: str) -> float:
    total = {FIRST: 0, SECOND: 0}
    for visit in visits:
        total[visit["worker"]] += visit["timing"][clock]
    return math.log(max(1, total[SECOND]) / max(1, total[FIRST]))


def _judge(session: Session) -> None:
    plan, visits = session.context.plan, session.state.aa_visits
    delta, clock = plan.limits.aa_ratio, clock_of(plan)
    chosen = _complete(session)[: plan.schedule.aa_blocks]
    interval = session.context.aa_interval([_log_ratio(visits[block], clock) for block in chosen])
    low, high = interval.get("low"), interval.get("high")
    ok = low is not None and high is not None and -delta <= low and high <= delta
    session.journal.note("aa", interval=interval, delta=delta, ok=ok, blocks=chosen, clock=clock)
    if not ok:
        registered = session.context.role == "registered"
        again = "freeze a new attempt" if registered else "start another run"
        raise VoidError(
            f"A/A: the interval of the log ratio is [{low}, {high}], expected within ±{delta:g}; "
            f"the run is void: quiet the machine, then {again}"
        )
