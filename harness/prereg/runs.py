"""A sealed run against its seal, its lock, the frozen order, and what the ledger recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from harness.ledger.chain import Chain, Head
from harness.ledger.records import History, RunStarted, Verdicts, history
from harness.plan.digest import plan_digest, plan_from_json
from harness.plan.order import order_table
from harness.prereg.findings import Finding, changed, from_error, guarded, incomplete, remark
from harness.prereg.lock import FileEntry, LedgerHead, Lock, Part, Sha256
from harness.prereg.schedule import check_schedule
from harness.store.canonical import Json, canonical, parse
from harness.store.digests import check_table, digest, sha256_bytes
from harness.store.errors import ChangedError, Exit, HarnessError
from harness.store.files import read, read_json
from harness.store.framed import AROUND, bodies, stream
from harness.store.paths import Project, RunPaths

Recompute = Callable[[RunPaths], Json]
"""A run's folder → its analysis, computed anew from the sealed records."""


class SealCounts(Part):
    """How many trials and visits the sealed journal holds."""

    trials: Annotated[int, Field(ge=0)]
    visits: Annotated[int, Field(ge=0)]


class Seal(Part):
    """The content of seal.json."""

    format: Literal[1]
    plan: str
    run_id: str
    files: dict[str, FileEntry]
    digest: Sha256
    ledger_head: LedgerHead | None
    lock_digest: Sha256 | None
    records: SealCounts
    sealed_utc: str


def read_seal(project: Project, run: RunPaths) -> tuple[Seal, str]:
    """Return a run's seal and the SHA-256 of its bytes.

    Raises:
        IncompleteError: missing or empty. ChangedError: damaged, or fields that no seal has.
    """
    data, value = read(run.seal), read_json(run.seal)
    try:
        return Seal.model_validate_json(canonical(value)), sha256_bytes(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ChangedError(f"{project.relative(run.seal)}: {key}: {first['msg']}") from error


@dataclass(frozen=True)
class _Checked:
    """One run on the way through its checks."""

    project: Project
    plan: str
    run: RunPaths
    seen: History
    """The ledger for the registered run, its own chain for a replication."""
    lock: Lock | None

    @property
    def run_id(self) -> str:
        return self.run.root.name

    @property
    def chain(self) -> Chain | None:
        """The chain that the run was sealed onto; None where the run was adopted into another."""
        if not self.seen.frozen(self.plan):
            return Chain(self.run.chain)
        first = self.seen.registered(self.plan)
        registered = first is not None and first[1].run_id == self.run_id
        return Chain(self.project.ledger(self.lock.study)) if registered and self.lock else None

    @property
    def start(self) -> RunStarted | None:
        """The record of its start."""
        starts = (body for _, body in self.seen.of(RunStarted, self.plan))
        return next((body for body in starts if body.run_id == self.run_id), None)

    def name(self, file: str = "") -> str:
        return self.project.relative(self.run.root / file)


def check_run(
    project: Project,
    plan: str,
    run_id: str,
    seen: History,
    lock: Lock | None,
    recompute: Recompute | None = None,
) -> list[Finding]:
    """Return what is wrong with a run that a ledger names, or that lies in the project's folder."""
    one = _Checked(project, plan, project.run(plan, run_id), seen, lock)
    started = one.start is not None
    if not one.run.root.is_dir():
        return [incomplete(one.name(), "missing, but the ledger holds its start; restore it")]
    sealed = seen.sealed(plan, run_id)
    if not one.run.seal.exists():
        return _unsealed(one, sealed is not None, started)
    try:
        seal, found = read_seal(project, one.run)
    except HarnessError as error:
        return [from_error(one.name("seal.json"), error)]
    findings = _against_ledger(one, seal, found, started)
    tables = _files(one, seal)
    findings += tables
    if not tables:
        findings += _contents(one, seal)
    return findings + _verdicts(one, found, recompute if not findings else None)


def _unsealed(one: _Checked, sealed: bool, started: bool) -> list[Finding]:
    if sealed:
        return [incomplete(one.name("seal.json"), "missing, but the ledger holds it; restore it")]
    if one.seen.abandoned(one.plan, one.run_id):
        return [remark(one.name(), "abandoned, so its predictions are void")]
    void = _void_reason(one)
    if void is not None:
        text = f"{one.name()}: void, so its predictions are: {void}"
        return [Finding(Exit.VOID, one.name(), text)]
    if started:
        return [incomplete(one.name(), f"not finished; `harness run conf={one.plan}` resumes it")]
    return [remark(one.name(), "not finished, and no ledger names it")]


def _void_reason(one: _Checked) -> str | None:
    """Return why a run stopped itself for good, by its journal; None where it did not."""
    try:
        events = [r for r in stream(one.run.journal) if r.get("kind") == "run"]
    except HarnessError:
        return None
    void = [str(event.get("reason")) for event in events if event.get("event") == "void"]
    return void[-1] if void else None


def _against_ledger(one: _Checked, seal: Seal, found: str, started: bool) -> list[Finding]:
    path = one.name("seal.json")
    findings: list[Finding] = []
    for field, have, want in (("plan", seal.plan, one.plan), ("run_id", seal.run_id, one.run_id)):
        if have != want:
            findings.append(changed(path, f"{field}: found {have}, expected {want}"))
    sealed = one.seen.sealed(one.plan, one.run_id)
    if sealed is None:
        if started:
            text = f"not in the ledger yet; `harness run conf={one.plan}` completes it"
            findings.append(incomplete(path, text))
        return findings
    record, body = sealed
    if body.seal_digest != found:
        text = f"found sha256 {found[:12]}…, expected {body.seal_digest[:12]}…"
        findings.append(changed(path, f"{text} by ledger record {record.n}"))
    if body.records.model_dump() != seal.records.model_dump():
        findings.append(changed(path, f"records: other counts than ledger record {record.n}"))
    chain = one.chain
    if seal.ledger_head is not None and chain is not None:
        records = [entry.record for entry in one.seen.entries]
        head = seal.ledger_head.head()
        findings += guarded(path, lambda: chain.check_head(records, head, path))
    return findings


def _files(one: _Checked, seal: Seal) -> list[Finding]:
    table = {name: entry.model_dump() for name, entry in seal.files.items()}
    findings: list[Finding] = []
    if digest(table) != seal.digest:
        findings.append(changed(one.name("seal.json"), "its digest is not that of its file table"))
    absent = [name for name in ("run.json", "journal.log") if name not in table]
    findings += [changed(one.name("seal.json"), f"does not cover {name}") for name in absent]
    for name, entry in table.items():
        try:
            if "/" in name:
                raise ChangedError(f"{name}: a seal covers files of the run's own folder only")
            check_table(one.run.root, {name: entry})
        except HarnessError as error:
            found = from_error(one.name(name), error)
            findings.append(Finding(found.code, found.path, f"{found.path}: {error}"))
    torn = sorted(path.name for path in one.run.root.glob("journal.log.torn.*"))
    return findings + [
        changed(one.name(name), "not in the seal") for name in torn if name not in table
    ]


def _contents(one: _Checked, seal: Seal) -> list[Finding]:
    """Check manifest and journal, whose bytes are the sealed ones; the journal in a stream."""
    manifest_name, journal_name = one.name("run.json"), one.name("journal.log")
    try:
        manifest = read_json(one.run.manifest)
        findings = _manifest(one, seal, manifest)
        if findings:
            return findings
        plan = plan_from_json(_object(manifest["plan_json"], "plan_json"))
        order = order_table(plan, plan_digest(plan), str(manifest["nonce"]))
    except HarnessError as error:
        return [from_error(manifest_name, error)]
    if order.digest != manifest["order_digest"]:
        findings.append(changed(manifest_name, "order_digest: not the order of its plan and nonce"))
    partition = one.lock.partitions.get(plan.stage) if one.lock else None
    ids: Sequence[str] | None = partition.ids if partition else None
    tally = _Tally(one.run.journal)
    try:
        findings += check_schedule(journal_name, tally, order, ids)
    except HarnessError as error:
        return [from_error(journal_name, error)]
    if not tally.done:
        return findings
    if tally.bytes != one.run.journal.stat().st_size:
        findings.append(incomplete(journal_name, f"torn tail after record {tally.records}"))
    if tally.counts != seal.records.model_dump():
        text = f"found {tally.counts}, expected {seal.records.model_dump()} by the seal"
        findings.append(changed(journal_name, text))
    return findings


class _Tally:
    """The records of a journal, counted while they go by."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records = self.bytes = 0
        self.counts = {"trials": 0, "visits": 0}
        self.done = False

    def __iter__(self) -> Iterator[Json]:
        for body in bodies(self._path):
            self.records += 1
            value = self._value(body)
            self.bytes += len(body) + AROUND
            kind = f"{value.get('kind')}s"
            if kind in self.counts:
                self.counts[kind] += 1
            yield value
        self.done = True

    def _value(self, body: bytes) -> Json:
        try:
            return _object(parse(body, share=True), f"record {self.records}")
        except ValueError as error:
            raise ChangedError(f"record {self.records} is not strict JSON: {error}") from error


def _manifest(one: _Checked, seal: Seal, manifest: dict[str, Any]) -> list[Finding]:
    path = one.name("run.json")
    needed = (
        "plan", "run_id", "role", "plan_json", "plan_digest", "nonce", "order_digest",
        "lock_digest",
    )  # fmt: skip
    absent = [field for field in needed if field not in manifest]
    if absent:
        return [changed(path, f"{absent[0]}: missing")]
    expected: dict[str, object] = {
        "plan": one.plan,
        "run_id": one.run_id,
        "lock_digest": seal.lock_digest,
        "plan_digest": digest(manifest["plan_json"]),
    }
    if one.start is not None:
        expected["role"] = one.start.role
    if one.lock is not None and manifest["lock_digest"] is not None:
        expected |= {
            "plan_digest": one.lock.plan_digest,
            "nonce": one.lock.nonce,
            "order_digest": one.lock.order_digest,
            "lock_digest": sha256_bytes(one.lock.data()),
        }
    return [
        changed(path, f"{field}: found {_short(manifest[field])}, expected {_short(value)}")
        for field, value in expected.items()
        if manifest[field] != value
    ]


def _verdicts(one: _Checked, seal_digest: str, recompute: Recompute | None) -> list[Finding]:
    recorded = one.seen.verdicts(one.plan, one.run_id)
    if not recorded:
        return []
    record, body = recorded[-1]
    path, where = one.name("analysis.json"), f"ledger record {record.n}"
    findings: list[Finding] = []
    if body.seal_digest != seal_digest:
        findings.append(changed(one.name("seal.json"), f"{where} judged another seal"))
    again: Json | None = None
    if recompute is not None and not findings:
        try:
            again = recompute(one.run)
        except HarnessError as error:
            findings.append(from_error(path, error))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"the records give no analysis: {type(error).__name__}: {error}"
            findings.append(changed(one.name("journal.log"), text))
    if again is not None and digest(again) != body.analysis_digest:
        if words(again) != _recorded_words(body):
            findings.append(changed(path, f"computed anew, its verdicts differ from {where}"))
        else:
            findings.append(remark(path, f"later code adds to it, with the verdicts of {where}"))
    if one.run.analysis.exists():
        findings += _kept_analysis(one, body, again, where)
    return findings


def _kept_analysis(one: _Checked, body: Verdicts, again: Json | None, where: str) -> list[Finding]:
    """The kept analysis is the recorded one, or what the sealed records give with later code."""
    path = one.name("analysis.json")
    try:
        kept = read_json(one.run.analysis)
    except HarnessError as error:
        return [from_error(path, error)]
    if digest(kept) == body.analysis_digest or kept == again:
        return []
    if words(kept) != _recorded_words(body):
        return [
            changed(
                path, f"its verdicts are not those of {where}; remove it and run `harness analyze`"
            )
        ]
    text = (
        f"not the bytes of {where}, nor what the records give; remove it and run `harness analyze`"
    )
    return [changed(path, text) if again is not None else remark(path, text)]


def words(analysis: Json) -> dict[str, str] | None:
    """Return prediction id → verdict of an analysis; None where it has no such list."""
    try:
        return {str(one["id"]): str(one["word"]) for one in analysis["verdicts"]}
    except (KeyError, TypeError):
        return None


def _recorded_words(body: Verdicts) -> dict[str, str]:
    return {one.id: one.word for one in body.verdicts}


def check_replication(
    project: Project, plan: str, run_id: str, lock: Lock | None, ledger: History
) -> list[Finding]:
    """Return what is wrong with a run that keeps a chain of its own, or none.

    Where the ledger has adopted it, its chain and its seal are held to what the ledger says.
    """
    run = project.run(plan, run_id)
    chain = Chain(run.chain)
    taken = ledger.adopted(plan, run_id)
    if taken is not None and not run.root.is_dir():
        text = f"missing, but ledger record {taken[0].n} adopted it; restore it"
        return [incomplete(project.relative(run.root), text)]
    head = None if taken is None else Head(taken[1].chain_count, taken[1].chain_digest)
    try:
        seen = history(chain.verify(head))
    except HarnessError as error:
        return [from_error(project.relative(run.chain), error)]
    if not run.seal.exists() and seen.sealed(plan, run_id) is None:
        return [remark(project.relative(run.root), "not finished; no ledger of a study names it")]
    findings = check_run(project, plan, run_id, seen, lock)
    sealed = seen.sealed(plan, run_id)
    if taken is not None and (sealed is None or sealed[1].seal_digest != taken[1].seal_digest):
        text = f"not the seal that ledger record {taken[0].n} adopted"
        findings.append(changed(project.relative(run.seal), text))
    return findings


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise ChangedError(f"{name}: not an object")
    return value


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
