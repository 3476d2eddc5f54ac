"""Scored blocks: run in order, interrupted by rule, replaced by spares in order."""

from __future__ import annotations

from harness.plan.order import Block, Visit
from harness.run.process import WorkerDiedError
from harness.run.seats import Seat
from harness.run.session import Session
from harness.run.visits import Assignment

_TRIES = 3
"""Of a block without a scored record; an arm whose worker dies in the last one failed the items."""
_RECOVERY_TRIES = 2


def run_blocks(session: Session) -> None:
    """Run every planned block, then spares for the interrupted ones."""
    for block in session.context.order.planned:
        _settle(session, block)
    while (spare := _next_spare(session)) is not None:
        _settle(session, spare)


def _next_spare(session: Session) -> Block | None:
    """Return the spare that is called in but not done, or call in the next one."""
    state, spares = session.state, session.context.order.spares
    replaced = state.replaced()
    for spare in spares:
        if spare.block in replaced.values() and not state.block(spare.block).finished:
            return spare
    unused = [spare for spare in spares if spare.block not in replaced.values()]
    open_blocks = [number for number in state.interrupted() if number not in replaced]
    if not unused or not open_blocks:
        return None
    session.block_event(unused[0].block, "spare", replaces=open_blocks[0])
    return unused[0]


def _settle(session: Session, block: Block) -> None:
    """Run a block, or what is left of it."""
    state = session.state.block(block.block)
    if state.finished:
        return
    all_visits = {(visit.arm, visit.visit) for visit in block.visits}
    if not all_visits <= state.visits:
        session.context.unchanged()
        if state.visits and not state.interrupted:
            session.block_event(block.block, "interrupted", reason="the runner stopped inside it")
        seats = _staff(session, block)
        if state.interrupted or not _run(session, block, seats):
            _recover(session, block, seats)
    session.block_event(block.block, "finished")
    session.tell(f"block {block.block + 1}")


def _staff(session: Session, block: Block) -> dict[str, Seat]:
    launch = block.visits[0].launch
    seats = {name: Seat(name, name, launch) for name in session.context.plan.arms}
    session.crew.staff(list(seats.values()))
    return seats


def _run(session: Session, block: Block, seats: dict[str, Seat]) -> bool:
    """Run the visits; returns False when a worker died after the block's first scored record."""
    state = session.state.block(block.block)
    while True:
        session.block_event(block.block, "started")
        attempt = state.starts
        try:
            for visit in block.visits:
                session.tell(f"block {block.block + 1}, {visit.arm}")
                assignment = _assignment(session, block, visit, attempt)
                session.visit(seats[visit.arm], assignment, last_try=attempt >= _TRIES)
        except WorkerDiedError as error:
            if state.visits:
                session.block_event(block.block, "interrupted", reason=f"a worker died: {error}")
                return False
        else:
            return True


def _recover(session: Session, block: Block, seats: dict[str, Seat]) -> None:
    """Complete the answers of every arm's first visit; nothing here is timed."""
    state = session.state.block(block.block)
    for visit in block.visits:
        if visit.visit > 1 or (visit.arm, 1) in state.visits:
            continue
        for attempt in range(1, _RECOVERY_TRIES + 1):
            session.tell(f"block {block.block + 1}, {visit.arm}, completing")
            assignment = _assignment(session, block, visit, state.starts + attempt, recovering=True)
            try:
                last = attempt == _RECOVERY_TRIES
                session.visit(seats[visit.arm], assignment, last_try=last)
                break
            except WorkerDiedError:
                continue


def _assignment(
    session: Session, block: Block, visit: Visit, attempt: int, *, recovering: bool = False
) -> Assignment:
    return Assignment(
        phase="scored",
        block=block.block,
        visit=visit.visit,
        attempt=attempt,
        position=visit.position,
        number=block.block * len(block.visits) + visit.position,
        items=tuple(session.context.items[index] for index in block.items),
        recovering=recovering,
    )
