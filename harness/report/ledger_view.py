"""A study's records and analyses, joined into questions, locks, runs and predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.report.format import NOT_RECORDED, finite, number, plural
from harness.report.grid import Cell, Column, Grid, Row, cells
from harness.report.quantity import part, rows
from harness.report.scope import anchor_words
from harness.report.verdicts import (
    WORDS,
    Verdict,
    drawing,
    estimate_cell,
    expected_note,
    percent,
    verdicts,
)
from harness.store.canonical import Json, canonical
from harness.store.digests import sha256_bytes

Analyses = Mapping[tuple[str, str], Json]

_PREDICTIONS = (
    Column("word", "Verdict"),
    Column("claim", "Prediction", wide=True),
    Column("estimate", "Estimate and interval", right=True),
    Column("drawing", "Interval against region", drawn=True),
    Column("region", "Region", right=True),
    Column("confidence", "Author’s confidence", right=True),
    Column("plan", "Plan and attempt"),
)
_LOCKS = (
    Column("attempt", "Attempt"),
    Column("plan", "Plan", wide=True),
    Column("frozen", "Frozen, UTC"),
    Column("state", "Registered run", wide=True),
    Column("tally", "Verdicts, controls apart"),
    Column("lock", "Lock", wide=True),
)
_TIMELINE = (
    Column("n", "Record", right=True),
    Column("at", "Time, UTC"),
    Column("kind", "Kind"),
    Column("what", "What", wide=True),
    Column("digest", "SHA-256"),
)


@dataclass(frozen=True)
class Lock:
    """One frozen plan with what came of it."""

    plan: str
    question: str
    attempt: int
    of: int
    at: str
    digest: str
    state: str
    run_id: str | None

    @property
    def attempt_text(self) -> str:
        """`attempt k of n`."""
        return f"attempt {self.attempt} of {self.of}"


@dataclass(frozen=True)
class Judged:
    """A prediction with its verdict, its plan and whether its run is the registered one."""

    verdict: Verdict
    plan: str
    run_id: str
    is_registered: bool


def body(record: Json) -> Json:
    """Return a record's body."""
    return part(record, "body")


def record_digest(record: Json) -> str:
    """Return the SHA-256 of a record file's bytes."""
    return sha256_bytes(canonical(record) + b"\n")


def _stamp(record: Json) -> str:
    return str(record.get("at") or NOT_RECORDED)[:19].replace("T", " ")


def _of(records: Sequence[Json], kind: str) -> list[Json]:
    return [body(record) for record in records if record.get("kind") == kind]


def registered_runs(records: Sequence[Json]) -> dict[str, str]:
    """Return plan → run id of the first run that was started after each freeze."""
    found: dict[str, str] = {}
    for started in _of(records, "run.started"):
        if started.get("role") in (None, "registered"):
            found.setdefault(str(started.get("plan")), str(started.get("run_id")))
    return found


def locks(records: Sequence[Json]) -> list[Lock]:
    """Return every lock in chain order."""
    frozen = [record for record in records if record.get("kind") == "plan.frozen"]
    totals = Counter(str(body(record).get("question")) for record in frozen)
    runs = registered_runs(records)
    seen: Counter[str] = Counter()
    found = []
    for record in frozen:
        entry = body(record)
        plan, question = str(entry.get("plan")), str(entry.get("question"))
        seen[question] += 1
        state, run_id = _state(records, runs.get(plan)), runs.get(plan)
        attempt, digest = seen[question], str(entry.get("lock_digest") or NOT_RECORDED)
        of, at = totals[question], _stamp(record)
        found.append(Lock(plan, question, attempt, of, at, digest, state, run_id))
    return found


def _state(records: Sequence[Json], run_id: str | None) -> str:
    if run_id is None:
        return "never run"
    kinds = {record.get("kind") for record in records if body(record).get("run_id") == run_id}
    ends = {"run.sealed": "sealed", "run.abandoned": "abandoned"}
    state = next((word for kind, word in ends.items() if kind in kinds), "started, not sealed")
    deviated = ", with deviations" if "run.deviated" in kinds else ""
    return f"{run_id}, {state}{deviated}"


def judged(records: Sequence[Json], analyses: Analyses) -> list[Judged]:
    """Return every judged prediction in chain order; runs outside the chain come last."""
    runs = registered_runs(records)
    found = list(_chain(records, analyses, runs))
    done = {(item.plan, item.run_id) for item in found}
    for (plan, run_id), analysis in sorted(analyses.items()):
        if (plan, run_id) not in done:
            first = runs.get(plan) == run_id
            found += [Judged(verdict, plan, run_id, first) for verdict in verdicts(analysis)]
    return found


def _chain(records: Sequence[Json], analyses: Analyses, runs: dict[str, str]) -> Iterator[Judged]:
    seen: set[tuple[str, str]] = set()
    for entry in _of(records, "verdicts"):
        key = str(entry.get("plan")), str(entry.get("run_id"))
        if key in seen:
            continue
        seen.add(key)
        known = {verdict.id: verdict.data for verdict in verdicts(analyses.get(key, {}))}
        for row in rows(entry, "verdicts"):
            data = {**known.get(str(row.get("id")), {}), **row}
            yield Judged(Verdict(data, {}), *key, runs.get(key[0]) == key[1])


def of_abandoned(records: Sequence[Json]) -> list[str]:
    """Return plans whose registered run was abandoned: every prediction of theirs is void."""
    runs = registered_runs(records)
    gone = {str(entry.get("run_id")) for entry in _of(records, "run.abandoned")}
    return [plan for plan, run_id in runs.items() if run_id in gone]


def ledger_grid(records: Sequence[Json], analyses: Analyses) -> Grid:
    """Return every registered prediction, failures printed like the others."""
    found = [item for item in judged(records, analyses) if item.is_registered]
    return predictions_grid("predictions", "Every registered prediction", found, locks(records))


def predictions_grid(name: str, caption: str, found: list[Judged], frozen: list[Lock]) -> Grid:
    """Return judged predictions as a table."""
    attempts = {lock.plan: lock.attempt_text for lock in frozen}
    table = tuple(
        Row(f"{item.plan}.{item.run_id}.{item.verdict.id}", _prediction(item, attempts))
        for item in found
    )
    return Grid(name, caption, _PREDICTIONS, table)


def _prediction(item: Judged, attempts: dict[str, str]) -> tuple[Cell, ...]:
    verdict = item.verdict
    note = attempts.get(item.plan, "lock not recorded")
    claim = verdict.data.get("claim") or f"claim {NOT_RECORDED}"
    reasons = " · ".join(text for text in (verdict.family, verdict.reasons) if text)
    return (
        Cell(verdict.word, note=expected_note(verdict), tone=verdict.word, join=", "),
        Cell(f"{verdict.id}: {claim}", note=reasons, join=" · "),
        estimate_cell(verdict),
        Cell("", drawing=drawing(verdict)),
        Cell(verdict.region_text),
        Cell(percent(verdict.confidence)),
        Cell(item.plan, note=note if item.is_registered else item.run_id, join=", "),
    )


def questions(records: Sequence[Json], analyses: Analyses) -> list[tuple[str, Grid]]:
    """Return every question with every lock under it."""
    frozen, found = locks(records), judged(records, analyses)
    names = dict.fromkeys(lock.question for lock in frozen)
    result = []
    for index, name in enumerate(names, 1):
        under = [lock for lock in frozen if lock.question == name]
        table = tuple(Row(lock.plan, _lock(lock, found)) for lock in under)
        result.append((name, Grid(f"question{index}", f"Locks on {name}", _LOCKS, table)))
    return result


def _lock(lock: Lock, found: list[Judged]) -> tuple[Cell, ...]:
    mine = [item for item in found if item.plan == lock.plan and item.is_registered]
    words = Counter(item.verdict.word for item in mine if not item.verdict.is_control)
    text = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word]) or "none"
    plain = cells(lock.attempt_text, lock.plan, lock.at, lock.state, text)
    return (*plain, Cell(lock.digest[:16], tone="code"))


def totals(found: list[Judged]) -> tuple[tuple[str, str], ...]:
    """Return how many registered predictions got each word; controls are counted apart."""
    claims = [item for item in found if item.is_registered]
    words = Counter(item.verdict.word for item in claims if not item.verdict.is_control)
    controls = [item for item in claims if item.verdict.is_control]
    caught = sum(item.verdict.word == "failed" for item in controls)
    counted = tuple((word, str(words[word])) for word in WORDS)
    return (*counted, ("controls caught", f"{caught} of {len(controls)}"))


def calibration(found: list[Judged]) -> str:
    """Return the Brier score of the authors' P(held); void is set apart, controls are left out."""
    claims = [item.verdict for item in found if item.is_registered and not item.verdict.is_control]
    void = sum(verdict.word == "void" for verdict in claims)
    scored = [
        (verdict.confidence, float(verdict.word == "held"))
        for verdict in claims
        if verdict.word != "void" and verdict.confidence is not None
    ]
    silent = len(claims) - void - len(scored)
    apart = f"{void} void set apart, {silent} without a recorded confidence"
    if not scored:
        return f"Calibration: not estimable: no judged prediction has a confidence ({apart})."
    brier = sum((stated - truth) ** 2 for stated, truth in scored) / len(scored)
    return (
        f"Calibration: Brier score {number(brier)} over {plural(len(scored), 'prediction')}, where "
        f"0 is perfect and 0.25 is a coin; failed and inconclusive count as not held ({apart})."
    )


def timeline(records: Sequence[Json]) -> Grid:
    """Return every record in chain order."""
    table = tuple(Row(str(record.get("n")), _event(record)) for record in records)
    return Grid("timeline", "The chain, record by record", _TIMELINE, table)


def _event(record: Json) -> tuple[Cell, ...]:
    entry = body(record)
    names = ("plan", "run_id", "role", "question", "reason")
    what = ", ".join(str(entry[name]) for name in names if entry.get(name))
    n = finite(record.get("n"))
    return (
        *cells(NOT_RECORDED if n is None else f"{n:.0f}", _stamp(record), str(record.get("kind"))),
        Cell(what or NOT_RECORDED),
        Cell(record_digest(record)[:16], tone="code"),
    )


def head_facts(records: Sequence[Json], anchored: object) -> tuple[tuple[str, str], ...]:
    """Return what identifies the ledger as it stands."""
    digest = record_digest(records[-1]) if records else "none: the ledger is empty"
    return (
        ("Records", str(len(records))),
        ("Head, SHA-256", digest),
        ("Anchor", anchor_words(anchored)),
    )
