"""Does everything still stand as it was frozen, recorded and sealed? No git, GPU or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.ledger.chain import Chain, Head
from harness.ledger.records import (
    History,
    LedgerRepaired,
    PlanFrozen,
    RunAdopted,
    RunDeviated,
    RunStarted,
    history,
)
from harness.prereg.amendments import check_amendments
from harness.prereg.findings import Finding, changed, deviated, from_error, incomplete, remark
from harness.prereg.lock import Environment, Lock, read_lock
from harness.prereg.lock_checks import (
    STRICT,
    Level,
    check_in_ledger,
    check_lock,
    digest_in_ledger,
)
from harness.prereg.runs import Recompute, check_replication, check_run
from harness.store.clock import CLOCK
from harness.store.errors import Exit, HarnessError, UsageError
from harness.store.paths import Project


def verify_project(
    project: Project,
    path: Path | None = None,
    *,
    heads: Mapping[str, Head] | None = None,
    recompute: Recompute | None = None,
    archived: bool = False,
) -> list[Finding]:
    """Return every finding about a project, or about the one lock, run or ledger at `path`.

    `heads` are ledger heads, by study, that were recorded outside of the project. A lock whose
    registered run has not started is held to all that it covers, later ones to what was locked and
    recorded then; differences in code and environment are remarks there. Of an `archived` project
    the files outside of the archive are. A clean project gives remarks at most.

    Raises:
        UsageError: `path` is nothing that a verification knows.
    """
    area, names = _area(project, path)
    plans = _plans(project)
    seen: dict[str, History | None] = {}
    findings: list[Finding] = []
    known = studies(project)
    for study in known:
        seen[study], found = _ledger(project, study, (heads or {}).get(study))
        asked = area in (None, "ledgers") and names[:1] in ([], [study], [f"{study}.head.json"])
        findings += found if asked else [one for one in found if not one.remark]
    for study in sorted(set(heads or {}) - set(known)):
        findings.append(incomplete(f"ledgers/{study}", "missing; a head of it was kept elsewhere"))
    if area == "ledgers":
        return findings
    named = {body.plan for one in seen.values() if one for _, body in one.of(PlanFrozen)}
    for plan in sorted(plans | named):
        if names[:1] in ([], [plan]):
            scope = _Scope(area, names[1:2], recompute, archived)
            findings += _plan(project, plan, seen, scope)
    return findings


@dataclass(frozen=True)
class _Scope:
    """How much of a plan is looked at."""

    area: str | None
    runs: list[str]
    recompute: Recompute | None
    archived: bool


def verify_lock(
    project: Project,
    plan: str,
    level: Level = "registered",
    *,
    device_class: str | None = None,
    environment: Environment | None = None,
) -> list[Finding]:
    """Return what differs between a plan's lock and the project, the ledger of its study included.

    The device class is compared where the caller has determined one.
    """
    try:
        lock = read_lock(project, plan)
    except HarnessError as error:
        return [from_error(project.relative(project.lock(plan)), error)]
    seen, found = _ledger(project, lock.study, None)
    if seen is not None:
        found += check_amendments(project, lock, seen)
    findings = [one for one in found if one.code != Exit.DEVIATED]
    findings += check_lock(project, lock, level, environment, seen)
    if device_class is not None and device_class != lock.device_class:
        kind = changed if "device" in STRICT[level] else remark
        text = f"device_class: found {device_class}, expected {lock.device_class}"
        findings.append(kind(project.relative(project.lock(plan)), text))
    return findings + (check_in_ledger(project, lock, seen) if seen is not None else [])


def _area(project: Project, path: Path | None) -> tuple[str | None, list[str]]:
    """Return which of the project's folders a path points into, and the names below it."""
    if path is None or path.resolve() == project.root.resolve():
        return None, []
    known = ("preregistrations", "runs", "ledgers")
    full = path if path.is_absolute() else project.root / path
    try:
        parts = full.resolve().relative_to(project.root.resolve()).parts
    except ValueError:
        parts = ()
    if not parts or parts[0] not in known or not full.exists():
        raise UsageError(f"{path}: nothing to verify; expected a path in {', '.join(known)}")
    return parts[0], list(parts[1:])


def _folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def studies(project: Project) -> list[str]:
    """Return every study with a ledger, or with a head that says it had one."""
    root = project.root / "ledgers"
    ending = ".head.json"
    heads = root.glob(f"*{ending}") if root.is_dir() else ()
    return sorted({*_folders(root), *(path.name[: -len(ending)] for path in heads)})


def _plans(project: Project) -> set[str]:
    prereg = project.root / "preregistrations"
    return {*_folders(prereg), *_folders(project.root / "runs")}


def _ledger(
    project: Project, study: str, head: Head | None
) -> tuple[History | None, list[Finding]]:
    chain = Chain(project.ledger(study))
    path = project.relative(chain.folder)
    try:
        seen = history(chain.verify(head))
    except HarnessError as error:
        return None, [from_error(path, error)]
    findings = [remark(f"{path}/{name}", "a stray file; harmless") for name in chain.strays()]
    findings += _repairs(path, seen)
    return seen, findings + list(_order_of_time(path, seen)) + list(_numbers(path, seen))


def _repairs(path: str, seen: History) -> Iterator[Finding]:
    for record, body in seen.of(LedgerRepaired):
        lost = f"{body.found_bytes} bytes of a record were set aside, reason: {body.reason}"
        yield deviated(path, f"record {record.n}: DEVIATED: repaired at {record.at}: {lost}")


def _order_of_time(path: str, seen: History) -> Iterator[Finding]:
    """The chain decides what came first; a clock that went back, or ahead of now, is named."""
    last, now = "", CLOCK.utc()
    for entry in seen.entries:
        if entry.record.at < last:
            text = f"record {entry.record.n}: clock anomaly: {entry.record.at} after {last}"
            yield remark(path, text)
        if entry.record.at > now:
            text = f"record {entry.record.n}: clock anomaly: {entry.record.at} lies ahead of {now}"
            yield remark(path, text)
        last = max(last, entry.record.at)


def _numbers(path: str, seen: History) -> Iterator[Finding]:
    """Attempts count up, names are frozen once, and only the first run is registered."""
    frozen: set[str] = set()
    per_question: dict[str, int] = {}
    for record, body in seen.of(PlanFrozen):
        number = per_question[body.question] = per_question.get(body.question, 0) + 1
        if body.plan in frozen:
            yield changed(path, f"record {record.n}: {body.plan} was frozen before")
        if body.attempt != number:
            text = f"record {record.n}: attempt: found {body.attempt}, expected {number}"
            yield changed(path, text)
        frozen.add(body.plan)
    for record, start in seen.of(RunStarted):
        lock = seen.frozen(start.plan)
        if lock is None or lock[0].n > record.n:
            yield changed(path, f"record {record.n}: {start.plan} ran before it was frozen")
            continue
        if start.lock_digest != lock[1].lock_digest:
            yield changed(path, f"record {record.n}: {start.run_id} ran under another lock")
        first = seen.registered(start.plan)
        if start.role == "registered" and first is not None and first[0].n != record.n:
            yield changed(path, f"record {record.n}: a second registered run of {start.plan}")


def _plan(
    project: Project, plan: str, histories: Mapping[str, History | None], scope: _Scope
) -> list[Finding]:
    """Check one plan's lock and runs."""
    findings: list[Finding] = []
    lock: Lock | None = None
    knowing = [study for study, seen in histories.items() if seen and seen.frozen(plan)]
    seen = histories[knowing[0]] if knowing else None
    path = project.relative(project.lock(plan))
    if project.lock(plan).exists() or seen is not None:
        try:
            lock = read_lock(project, plan)
        except HarnessError as error:
            findings.append(from_error(path, error))
            findings += digest_in_ledger(project, plan, seen)
    if lock is not None:
        level: Level = "archive" if scope.archived else _level(seen, plan)
        findings += check_lock(project, lock, level, None, seen)
        if lock.study not in histories:
            ledger = project.relative(project.ledger(lock.study))
            findings.append(incomplete(ledger, f"missing; {path} needs it"))
        elif histories[lock.study] is not None:
            found = histories[lock.study] or History(())
            findings += check_in_ledger(project, lock, found)
            findings += check_amendments(project, lock, found)
    if scope.area != "preregistrations":
        broken = any(one is None for one in histories.values())
        findings += _runs(project, plan, seen, lock, scope, broken)
    return findings


def _level(seen: History | None, plan: str) -> Level:
    return "registered" if seen is not None and seen.registered(plan) is None else "replication"


def _runs(
    project: Project,
    plan: str,
    seen: History | None,
    lock: Lock | None,
    scope: _Scope,
    broken_ledger: bool,
) -> list[Finding]:
    own = seen or History(())
    recorded = {body.run_id for _, body in own.of(RunStarted, plan)}
    adopted = {body.run_id for _, body in own.of(RunAdopted, plan)}
    findings: list[Finding] = []
    for run_id in sorted({*recorded, *adopted, *_folders(project.runs(plan))}):
        if scope.runs and run_id not in scope.runs:
            continue
        if run_id in recorded:
            findings += check_run(project, plan, run_id, own, lock, scope.recompute)
        elif not (broken_ledger and seen is None):
            findings += check_replication(project, plan, run_id, lock, own)
    wanted = scope.runs or None
    return [*findings, *_deviations(project, plan, own, wanted)]


def _deviations(
    project: Project, plan: str, seen: History, runs: list[str] | None
) -> Iterator[Finding]:
    """What was recorded of a run that did not go as planned."""
    for record, body in seen.of(RunDeviated, plan):
        if runs is not None and body.run_id not in runs:
            continue
        text = f"DEVIATED: {body.reason} (ledger record {record.n}, {record.at})"
        yield deviated(project.relative(project.run(plan, body.run_id).root), text)
