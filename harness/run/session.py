"""One run in progress: its context, journal and crew, and the visits that all phases share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from harness.plan.schema import Limits
from harness.run.context import Progress, RunContext
from harness.run.crew import Crew
from harness.run.journal import Journal
from harness.run.limits import cache_problem, machine_problem
from harness.run.process import WorkerDiedError
from harness.run.progress import counted
from harness.run.proof import visit_problem
from harness.run.records import visit_records
from harness.run.samples import keep_samples
from harness.run.seats import Live, Seat
from harness.run.state import RunState
from harness.run.visits import Assignment, Measured, failed
from harness.store.canonical import Json
from harness.store.errors import VoidError


@dataclass(frozen=True)
class Session:
    """What every phase of a run needs."""

    context: RunContext
    journal: Journal
    crew: Crew

    @property
    def state(self) -> RunState:
        """What is done."""
        return self.journal.state

    def tell(self, text: str) -> None:
        """Report progress."""
        total, done = counted(self.state, self.context.order, self.context.plan)
        self.context.progress(Progress(total, done, text))

    def block_event(self, block: int, event: str, **more: object) -> None:
        """Record what happened to a block."""
        self.journal.note("block", block=block, event=event, **more)

    def visit(self, seat: Seat, assignment: Assignment, *, last_try: bool = False) -> None:
        """Run and record one visit.

        On the last try a death is an outcome: the arm fails on these items.

        Raises:
            WorkerDiedError: the worker died and nothing was recorded. VoidError: the visit refutes
            what an arm claims, or the caches spoil the A/A phase.
        """
        live, began = self.crew.at(seat), time.monotonic_ns()
        try:
            measured = self.crew.visit(live, assignment)
        except WorkerDiedError as error:
            if not last_try:
                raise
            measured = failed(assignment, "error", str(error), time.monotonic_ns() - began)
        self._record(live, assignment, measured)
        if measured.lost:
            self.crew.lost(live, "no reply by the deadline")

    def _record(self, live: Live, assignment: Assignment, measured: Measured) -> None:
        records = visit_records(assignment, live, measured, self.context.score)
        reason = cache_problem(self._limits, assignment, measured)
        if reason is not None and assignment.phase == "aa":
            self.journal.append(*records)
            raise VoidError(f"A/A block {assignment.block}: {reason}; the run is void")
        if reason is None and assignment.timed:
            reason = machine_problem(self._limits, self.state, measured)
        if reason is not None:
            records[-1:] = [*self._void(assignment, reason), records[-1]]
        self.journal.append(*records)
        keep_samples(self.context.paths, records[-1], measured.samples)
        arm = self.context.plan.arms[live.seat.arm]
        problem = visit_problem(arm, live, measured.patch_counters) if measured.answered else None
        if problem is not None:
            raise VoidError(f"{problem}; the run is void")

    @property
    def _limits(self) -> Limits:
        return self.context.plan.limits

    def _void(self, assignment: Assignment, reason: str) -> list[Json]:
        assert assignment.block is not None
        if self.state.block(assignment.block).void:
            return []
        stamp = self.context.clock.utc()
        event: Json = {"kind": "block", "at": stamp, "block": assignment.block, "event": "void"}
        return [{**event, "reason": reason}]
