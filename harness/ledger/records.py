"""What the records say: one strict type per kind, and the questions that a history answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.ledger.chain import Chain, Record
from harness.store.canonical import Json
from harness.store.clock import CLOCK, Clock
from harness.store.errors import ChangedError, RefusedError

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(min_length=1)]
Natural = Annotated[int, Field(ge=0)]
Role = Literal["registered", "replication"]
Word = Literal["held", "failed", "inconclusive", "void"]
Access = Literal["nothing_run", "run_started", "run_sealed", "results_opened"]
"""How much had been seen when something was changed; derived from the history, never typed."""


class Body(BaseModel):
    """Base of every record's body: strict types, exact fields, immutable."""

    KIND: ClassVar[str]
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    plan: Text


class PlanFrozen(Body):
    """A lock was written; attempt k on its question."""

    KIND = "plan.frozen"
    question: Text
    attempt: Annotated[int, Field(ge=1)]
    lock_digest: Sha256
    plan_digest: Sha256


class RunStarted(Body):
    """A run began. The first of a frozen plan is the registered one, for ever."""

    KIND = "run.started"
    run_id: Text
    role: Role
    lock_digest: Sha256


class Counts(BaseModel):
    """How many trials and visits a seal covers."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    trials: Natural
    visits: Natural


class RunSealed(Body):
    """A run's files were fixed; `seal_digest` is the SHA-256 of seal.json's bytes."""

    KIND = "run.sealed"
    run_id: Text
    seal_digest: Sha256
    records: Counts


class RunAbandoned(Body):
    """A run was given up; its predictions are void."""

    KIND = "run.abandoned"
    run_id: Text
    reason: Text


class VerdictEntry(BaseModel):
    """One prediction's verdict with its interval; numbers are absent where it is void."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    id: Text
    word: Word
    estimate: float | None
    low: float | None
    high: float | None


class Verdicts(Body):
    """What a sealed run decided."""

    KIND = "verdicts"
    run_id: Text
    seal_digest: Sha256
    verdicts: list[VerdictEntry]
    analysis_digest: Sha256


class ResultOpened(Body):
    """Somebody looked at a run's results."""

    KIND = "result.opened"
    run_id: Text


class PlanAmended(Body):
    """A frozen plan was changed in the open; `file_digest` covers the amendment's file."""

    KIND = "plan.amended"
    number: Annotated[int, Field(ge=1)]
    reason: Text
    access: Access
    file_digest: Sha256


class RunDeviated(Body):
    """A run departed from its plan, with the reason."""

    KIND = "run.deviated"
    run_id: Text
    reason: Text
    access: Access


class RunAdopted(Body):
    """A replication's own chain was taken into the ledger."""

    KIND = "run.adopted"
    run_id: Text
    role: Role
    seal_digest: Sha256
    chain_count: Natural
    chain_digest: Sha256


EVERY_PLAN = "*"
"""Stands for a plan's name in records about the ledger itself."""


class LedgerRepaired(Body):
    """A record that was cut short was moved aside; this one stands in its place.

    What it said is lost, and it may have been about any plan, so every later verdict says so.
    """

    KIND = "ledger.repaired"
    plan: Text = EVERY_PLAN
    found_bytes: Natural
    found_digest: Sha256
    expected_digest: Sha256 | None
    """What the head noted of the lost record, if it did."""
    reason: Text


_TYPES: tuple[type[Body], ...] = (
    PlanFrozen,
    RunStarted,
    RunSealed,
    RunAbandoned,
    Verdicts,
    ResultOpened,
    PlanAmended,
    RunDeviated,
    RunAdopted,
    LedgerRepaired,
)
KINDS: dict[str, type[Body]] = {body.KIND: body for body in _TYPES}

B = TypeVar("B", bound=Body)


@dataclass(frozen=True)
class Entry:
    """A record with its typed body."""

    record: Record
    body: Body


def read_body(record: Record) -> Body:
    """Return a record's typed body.

    Raises:
        ChangedError: naming the record; an unknown kind, or a field too many, missing or mistyped.
    """
    kind = KINDS.get(record.kind)
    if kind is None:
        raise ChangedError(f"record {record.n}: kind {record.kind!r} is not known to this version")
    try:
        return kind.model_validate(record.body)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ChangedError(f"record {record.n} ({record.kind}): {key}: {first['msg']}") from error


def body_json(body: Body) -> Json:
    """Return a body as it is stored."""
    return body.model_dump(mode="json")


@dataclass(frozen=True)
class History:
    """A study's records, typed, with the questions that others ask of them."""

    entries: tuple[Entry, ...]

    def of(self, kind: type[B], plan: str | None = None) -> Iterator[tuple[Record, B]]:
        """Yield the records of one kind, oldest first, optionally of one plan."""
        for entry in self.entries:
            if isinstance(entry.body, kind) and plan in (None, entry.body.plan):
                yield entry.record, entry.body

    def knows(self, plan: str) -> bool:
        """Whether any record names the plan."""
        return any(entry.body.plan == plan for entry in self.entries)

    def frozen(self, plan: str) -> tuple[Record, PlanFrozen] | None:
        """Return the record of a plan's freeze."""
        return next(self.of(PlanFrozen, plan), None)

    def locks_of(self, question: str) -> list[PlanFrozen]:
        """Return every lock on a question, oldest first: attempt k of n is its place."""
        return [body for _, body in self.of(PlanFrozen) if body.question == question]

    def attempt(self, plan: str) -> tuple[int, int] | None:
        """Return (k, n): the plan is attempt k of n on its question, by order in the chain."""
        found = self.frozen(plan)
        if found is None:
            return None
        names = [body.plan for body in self.locks_of(found[1].question)]
        return names.index(plan) + 1, len(names)

    def registered(self, plan: str) -> tuple[Record, RunStarted] | None:
        """Return the registered run's start: the first `run.started` after the freeze."""
        frozen = self.frozen(plan)
        if frozen is None:
            return None
        starts = self.of(RunStarted, plan)
        return next((pair for pair in starts if pair[0].n > frozen[0].n), None)

    def started(self, plan: str, run_id: str) -> tuple[Record, RunStarted] | None:
        """Return the record of a run's start."""
        return _of_run(self.of(RunStarted, plan), run_id)

    def sealed(self, plan: str, run_id: str) -> tuple[Record, RunSealed] | None:
        """Return the record of a run's seal."""
        return _of_run(self.of(RunSealed, plan), run_id)

    def abandoned(self, plan: str, run_id: str) -> tuple[Record, RunAbandoned] | None:
        """Return the record that a run was given up."""
        return _of_run(self.of(RunAbandoned, plan), run_id)

    def adopted(self, plan: str, run_id: str) -> tuple[Record, RunAdopted] | None:
        """Return the record that a replication was taken into the ledger."""
        return _of_run(self.of(RunAdopted, plan), run_id)

    def before(self, n: int) -> History:
        """Return the history as it was when record `n` was appended."""
        return History(self.entries[: n - 1])

    def verdicts(self, plan: str, run_id: str | None = None) -> list[tuple[Record, Verdicts]]:
        """Return every verdict of a plan or of one run, oldest first."""
        return [pair for pair in self.of(Verdicts, plan) if run_id in (None, pair[1].run_id)]

    def opened(self, plan: str, run_id: str | None = None) -> tuple[Record, ResultOpened] | None:
        """Return the first record that results were looked at."""
        for pair in self.of(ResultOpened, plan):
            if run_id in (None, pair[1].run_id):
                return pair
        return None

    def access(self, plan: str) -> Access:
        """Return how much of a plan's results had been seen by now."""
        if self.opened(plan) or self.verdicts(plan):
            return "results_opened"
        if next(self.of(RunSealed, plan), None):
            return "run_sealed"
        return "run_started" if next(self.of(RunStarted, plan), None) else "nothing_run"


R = TypeVar("R", RunStarted, RunSealed, RunAbandoned, RunAdopted)


def _of_run(found: Iterator[tuple[Record, R]], run_id: str) -> tuple[Record, R] | None:
    return next((pair for pair in found if pair[1].run_id == run_id), None)


def history(source: Chain | Sequence[Record]) -> History:
    """Return the typed history of a chain.

    Raises:
        ChangedError, IncompleteError: as `Chain.records`, or a body that its kind does not allow.
    """
    records = source.records() if isinstance(source, Chain) else source
    return History(tuple(Entry(record, read_body(record)) for record in records))


def append(
    chain: Chain,
    body: Body,
    clock: Clock = CLOCK,
    *,
    guard: Callable[[History], None] | None = None,
) -> Record:
    """Append a typed record; `guard` sees the history that it will follow (see `Chain.append`)."""
    typed = None if guard is None else lambda records: guard(history(records))
    return chain.append(body.KIND, body_json(body), clock, guard=typed)


def start_registered(chain: Chain, body: RunStarted, clock: Clock = CLOCK) -> Record:
    """Append the start of a registered run, unless the plan has one already.

    Raises:
        RefusedError: the plan is not frozen, was frozen under another lock, or is spent.
    """

    def guard(seen: History) -> None:
        frozen = seen.frozen(body.plan)
        if frozen is None:
            raise RefusedError(f"{body.plan}: not frozen; run `harness freeze conf={body.plan}`")
        if frozen[1].lock_digest != body.lock_digest:
            raise RefusedError(f"{body.plan}: the ledger knows another lock than lock.json")
        start = seen.registered(body.plan)
        if start is not None:
            raise RefusedError(
                f"{body.plan}: spent; {start[1].run_id} is its registered run, for ever (record "
                f"{start[0].n}); further runs are replications"
            )

    return append(chain, body, clock, guard=guard)
