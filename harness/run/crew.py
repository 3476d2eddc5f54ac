"""The workers of a run: started together, proven, warmed up, replaced when they die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.run.context import RunContext
from harness.run.hello import hello
from harness.run.journal import Journal
from harness.run.limits import check_tellable
from harness.run.privacy import scrubbed
from harness.run.process import WorkerDiedError, WorkerProcess, WorkerReplyError
from harness.run.proof import prove_launch
from harness.run.records import visit_records
from harness.run.samples import keep_samples
from harness.run.seats import Live, Seat
from harness.run.settle import Settled
from harness.run.telemetry import Telemetry, sampler_of
from harness.run.visits import Assignment, Measured, measure
from harness.store.canonical import Json
from harness.store.errors import NotReadyError

_PATIENCE = 3
"""Processes that may die in warm-up, one after the other, before the environment is not ready."""
_INFO = ("backend", "versions", "device", "patch")


class Crew:
    """Live workers by name; with `exclusive` residency one at a time, fresh for every visit."""

    def __init__(self, context: RunContext, journal: Journal) -> None:
        self._context = context
        self._journal = journal
        self._exclusive = context.plan.schedule.residency == "exclusive"
        self._live: dict[str, Live] = {}
        self._starting: list[WorkerProcess] = []
        self._staffed: tuple[Seat, ...] = ()
        self._own: dict[str, Json | None] = {}
        """Arm → its own environment as checked at its last start."""
        self._settled = Settled(context.plan.model.device)
        self._sampler = sampler_of(context.plan.model.device)
        check_tellable(context.plan.limits, self._sampler)

    def staff(self, seats: Sequence[Seat]) -> None:
        """Fill exactly these seats; those of another launch are closed first.

        Raises:
            NotReadyError: a worker does not start. RefusedError: a patch is not proven.
        """
        if self._staffed == tuple(seats):
            return
        self.close()
        self._settled.check(", ".join(sorted({seat.arm for seat in seats})), idle=True)
        pristine_first = sorted(seats, key=lambda seat: not self._is_pristine(seat.arm))
        if self._exclusive:
            self._start(pristine_first[:1], warm=False)
            self.close()
        else:
            self._start(pristine_first, warm=True)
        self._staffed = tuple(seats)

    def at(self, seat: Seat) -> Live:
        """Return the worker for the next visit, restarted where residency or a death wants it."""
        if self._exclusive:
            for live in list(self._live.values()):
                self._close(live)
        if seat.worker not in self._live:
            self._start([seat], warm=True)
        return self._live[seat.worker]

    def visit(self, live: Live, assignment: Assignment) -> Measured:
        """Run a visit; a worker that dies is recorded and leaves its seat.

        Raises:
            WorkerDiedError: see `measure`.
        """
        pids = [one.process.pid for one in self._live.values()]
        telemetry = Telemetry(self._sampler, pids)
        limits, utc = self._context.plan.limits, self._context.clock.utc
        try:
            return measure(live.process, assignment, limits, telemetry, utc)
        except WorkerDiedError as error:
            self.lost(live, str(error))
            raise

    def lost(self, live: Live, reason: str) -> None:
        """Record that a worker died or was killed."""
        self._ended(live, live.process.kill(), "died", reason=reason)
        self._settled.check(live.seat.arm, idle=not self._live)

    def close(self) -> None:
        """End every worker and record it."""
        for live in list(self._live.values()):
            self._close(live)
        self._staffed = ()

    def abandon(self) -> None:
        """End every worker without a record, as when the journal can't be written."""
        for process in [*(live.process for live in self._live.values()), *self._starting]:
            process.kill(grace_s=1.0)
        self._live.clear()

    def _start(self, seats: Sequence[Seat], *, warm: bool) -> None:
        begun = [(seat, *self._begin(seat)) for seat in seats]
        for seat, start, process in begun:
            with self._starts(seat, start, process) as limit:
                process.send(hello(self._context.plan, seat.arm, self._context.seed), limit)
        for seat, start, process in begun:
            with self._starts(seat, start, process) as limit:
                greeting = process.receive(limit)
                probe = process.request({"op": "probe"}, limit)
            self._welcome(Live(seat, process, start, greeting, probe))
        self._starting.clear()
        for seat in seats if warm else ():
            self._warm_up(seat)

    def _begin(self, seat: Seat) -> tuple[int, WorkerProcess]:
        start = self._journal.state.starts[seat.worker] + 1
        log = self._context.paths.logs / f"{seat.worker}.{seat.launch}.{start}.err"
        self._own[seat.arm] = self._context.environment(seat.arm)
        process = self._context.start_worker(seat.arm, log, seat.under)
        self._starting.append(process)
        return start, process

    @contextmanager
    def _starts(self, seat: Seat, start: int, process: WorkerProcess) -> Iterator[float]:
        try:
            yield self._context.plan.limits.start_timeout_s
        except (WorkerDiedError, WorkerReplyError) as error:
            process.kill()
            self._note(seat, start, "died", reason=str(error))
            raise NotReadyError(f"arms.{seat.arm}: worker did not start: {error}") from error

    def _welcome(self, live: Live) -> None:
        self._live[live.seat.worker] = live
        arm, state = self._context.plan.arms[live.seat.arm], self._journal.state
        info = {name: scrubbed(live.hello.get(name)) for name in _INFO}
        if "engine" in live.hello:
            info["engine"] = scrubbed(live.hello["engine"])
        if (own := self._own.get(live.seat.arm)) is not None:
            info["environment"] = own
        shown = {name: live.probe.get(name) for name in ("fingerprint", "counters")}
        self._note(live.seat, live.start, "ready", info=info, probe=shown)
        first = {name: state.fingerprints.get(name) for name in self._context.plan.arms}
        pristine = next((first[name] for name in first if self._is_pristine(name)), None)
        prove_launch(arm, live, pristine, first[live.seat.arm])

    def _is_pristine(self, arm: str) -> bool:
        return self._context.plan.arms[arm].role == "pristine"

    def _warm_up(self, seat: Seat) -> None:
        reason = ""
        for _ in range(_PATIENCE):
            try:
                self._warm(self._live[seat.worker])
            except WorkerDiedError as error:
                reason = str(error)
                self._start([seat], warm=False)
            else:
                return
        raise NotReadyError(f"arms.{seat.arm}: {_PATIENCE} workers died in warm-up: {reason}")

    def _warm(self, live: Live) -> None:
        schedule, pool = self._context.plan.schedule, self._context.explore
        for number in range(schedule.warmup_visits):
            shift = number * schedule.block_items
            batch = range(shift, shift + schedule.block_items)
            items = tuple(pool[index % len(pool)] for index in batch)
            assignment = Assignment("warmup", None, number + 1, 1, number, number, items)
            measured = self.visit(live, assignment)
            records = visit_records(assignment, live, measured, self._context.score)
            self._journal.append(*records)
            keep_samples(self._context.paths, records[-1], measured.samples)
            if measured.lost:
                self.lost(live, "no reply by the deadline in warm-up")
                raise WorkerDiedError("no reply by the deadline")

    def _close(self, live: Live) -> None:
        self._ended(live, live.process.close(), "closed")

    def _ended(self, live: Live, ghosts: int, event: str, **more: object) -> None:
        self._settled.watch(live.process.ports)
        del self._live[live.seat.worker]
        told = {"ghosts": ghosts} if ghosts else {}
        self._note(live.seat, live.start, event, **told, **more)

    def _note(self, seat: Seat, start: int, event: str, **more: object) -> None:
        self._journal.note(
            "launch",
            arm=seat.arm,
            worker=seat.worker,
            launch=seat.launch,
            start=start,
            event=event,
            **more,
        )
