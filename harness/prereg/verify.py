"""Does everything still stand as it was frozen, recorded and sealed? No git, GPU or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from harness.ledger.chain import Chain, Head
from harness.ledger.records import History, PlanFrozen, RunStarted, history
from harness.plan.compose import compose
from harness.plan.digest import plan_digest, plan_json
from harness.plan.order import order_table
from harness.plan.resolve import is_resolved, resolve
from harness.plan.schema import Selection
from harness.prereg.environment import environment as environment_of
from harness.prereg.environment import environment_differences
from harness.prereg.findings import Finding, changed, from_error, guarded, incomplete, remark
from harness.prereg.lock import Environment, Lock, Selected, read_lock
from harness.prereg.partitions import count_of
from harness.prereg.runs import Recompute, check_replication, check_run
from harness.prereg.selection import rank
from harness.prereg.tables import differences
from harness.store.digests import digest, sha256_bytes
from harness.store.errors import ChangedError, Exit, HarnessError, UsageError
from harness.store.files import read
from harness.store.paths import Project

Level = Literal["registered", "replication", "archive"]
"""What must be as locked. `registered`: everything. `replication`: all but code and environment.
`archive`: what an archive holds by itself; conf, model, code and environment are remarks."""

_STRICT: dict[Level, frozenset[str]] = {
    "registered": frozenset({"conf", "model", "patch", "code", "environment", "device"}),
    "replication": frozenset({"conf", "model", "patch"}),
    "archive": frozenset({"patch"}),
}


def verify_project(
    project: Project,
    path: Path | None = None,
    *,
    heads: Mapping[str, Head] | None = None,
    recompute: Recompute | None = None,
) -> list[Finding]:
    """Return every finding about a project, or about the one lock, run or ledger at `path`.

    `heads` are ledger heads, by study, that were recorded outside of the project. A lock whose
    registered run has not started is held to all that it covers, later ones to what was locked and
    recorded then; differences in code and environment are remarks there. A clean project gives [].

    Raises:
        UsageError: `path` is nothing that a verification knows.
    """
    area, names = _area(project, path)
    plans = _plans(project)
    seen: dict[str, History | None] = {}
    findings: list[Finding] = []
    for study in studies(project):
        seen[study], found = _ledger(project, study, (heads or {}).get(study))
        if area in (None, "ledgers") and names[:1] in ([], [study]):
            findings += found
    if area == "ledgers":
        return findings
    named = {body.plan for one in seen.values() if one for _, body in one.of(PlanFrozen)}
    for plan in sorted(plans | named):
        if names[:1] in ([], [plan]):
            findings += _plan(project, plan, seen, area, names[1:2], recompute)
    return findings


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
    findings = found + _lock(project, lock, level, environment)
    if device_class is not None and device_class != lock.device_class:
        kind = changed if "device" in _STRICT[level] else remark
        text = f"device_class: found {device_class}, expected {lock.device_class}"
        findings.append(kind(project.relative(project.lock(plan)), text))
    return findings + (_in_ledger(project, lock, seen) if seen is not None else [])


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
    return seen, findings + list(_order_of_time(path, seen)) + list(_numbers(path, seen))


def _order_of_time(path: str, seen: History) -> Iterator[Finding]:
    """The chain decides what came first; a clock that went back is named."""
    last = ""
    for entry in seen.entries:
        if entry.record.at < last:
            text = f"record {entry.record.n}: clock anomaly: {entry.record.at} after {last}"
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
    project: Project,
    plan: str,
    histories: Mapping[str, History | None],
    area: str | None,
    runs: list[str],
    recompute: Recompute | None,
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
            findings += _digest_in_ledger(project, plan, seen)
    if lock is not None:
        findings += _lock(project, lock, _level(seen, plan), None)
        if lock.study not in histories:
            ledger = project.relative(project.ledger(lock.study))
            findings.append(incomplete(ledger, f"missing; {path} needs it"))
        elif histories[lock.study] is not None:
            findings += _in_ledger(project, lock, histories[lock.study] or History(()))
    if area != "preregistrations":
        broken = any(one is None for one in histories.values())
        findings += _runs(project, plan, seen, lock, runs, recompute, broken)
    return findings


def _level(seen: History | None, plan: str) -> Level:
    return "registered" if seen is not None and seen.registered(plan) is None else "replication"


def _runs(
    project: Project,
    plan: str,
    seen: History | None,
    lock: Lock | None,
    only: list[str],
    recompute: Recompute | None,
    broken_ledger: bool,
) -> list[Finding]:
    recorded = [] if seen is None else [body.run_id for _, body in seen.of(RunStarted, plan)]
    findings: list[Finding] = []
    for run_id in sorted({*recorded, *_folders(project.runs(plan))}):
        if only and run_id not in only:
            continue
        if run_id in recorded and seen is not None:
            findings += check_run(project, plan, run_id, seen, lock, recompute)
        elif not (broken_ledger and seen is None):
            findings += check_replication(project, plan, run_id, lock)
    return findings


def _lock(
    project: Project, lock: Lock, level: Level, environment: Environment | None
) -> list[Finding]:
    """Re-derive a lock from what it keeps, and compare the files that it covers."""
    path = project.relative(project.lock(lock.plan))
    findings = guarded(path, lambda: _derived(lock))
    if project.lock(lock.plan).parent.name != lock.plan:
        findings.append(changed(path, f"plan: found {lock.plan}, expected its folder's name"))
    for part in ("conf", "model", "patch", "code"):
        strict = part in _STRICT[level]
        found = [
            from_error(name, error) for name, error in differences(project, lock.files.table(part))
        ]
        same = (
            "; comment or layout only" if part == "conf" and found and _same(project, lock) else ""
        )
        findings += [
            Finding(one.code if strict else Exit.DONE, one.path, f"{one.message}{same} (in {path})")
            for one in found
        ]
    kind = changed if "environment" in _STRICT[level] else remark
    for text in environment_differences(lock.environment, environment or environment_of()):
        findings.append(kind(path, f"environment: {text}"))
    return findings


def _same(project: Project, lock: Lock) -> bool:
    """Whether changed conf files still compose to the frozen plan."""
    try:
        plan = compose(project, lock.plan).plan
        chosen = lock.selection.chosen if lock.selection else None
        again = resolve(plan, chosen) if chosen else plan
        return digest(plan_json(again)) == lock.plan_digest
    except Exception:  # noqa: BLE001 - damaged files may fail anywhere, and this is only a hint
        return False


def _derived(lock: Lock) -> None:
    plan = lock.typed_plan()
    facts = {
        "plan_digest": (digest(lock.plan_json), lock.plan_digest),
        "plan": (plan.plan, lock.plan),
        "study": (plan.study, lock.study),
        "stage": (plan.stage, lock.stage),
        "question": (plan.question, lock.question),
        "threads": (plan.schedule.threads, lock.threads),
        "schema": (lock.plan_json.get("schema"), lock.schema_),
        "order_digest": (
            order_table(plan, plan_digest(plan), lock.nonce).digest,
            lock.order_digest,
        ),
    }
    for bucket in ("explore", "select", "confirm"):
        kept = lock.partitions.get(bucket)
        facts[f"partitions.{bucket}"] = (count_of(plan, bucket), kept.count if kept else 0)
        if kept is not None:
            facts[f"partitions.{bucket}.ids"] = (len(set(kept.ids)), kept.count)
    if plan.selection is not None:
        chosen = lock.selection.chosen if lock.selection else None
        facts["selection.chosen"] = (plan.selection.chosen, chosen)
    for name, (found, expected) in facts.items():
        if found != expected:
            raise ChangedError(f"{name}: found {_short(expected)}, but derived {_short(found)}")
    if plan.selection is not None and lock.selection is not None:
        _chosen_by_rule(plan.selection, lock.selection)
    if not is_resolved(plan) or (lock.selection is None) != (plan.selection is None):
        raise ChangedError("selection: not resolved, so this is no lock that a freeze writes")
    if (lock.selection is None) != (lock.parents is None):
        raise ChangedError("parents: must be there exactly where a selection is")


def _chosen_by_rule(selection: Selection, kept: Selected) -> None:
    """Apply the rule again to the figures that the lock keeps."""
    again = rank(selection, {one.arm: one.metrics for one in kept.figures})
    found = [(one.arm, one.admissible, one.rank) for one in again]
    if found != [(one.arm, one.admissible, one.rank) for one in kept.figures]:
        raise ChangedError("selection.figures: the frozen rule ranks them in another way")
    if next((one.arm for one in again if one.rank == 1), None) != kept.chosen:
        raise ChangedError(f"selection.chosen: found {kept.chosen}, not what the rule chooses")


def _digest_in_ledger(project: Project, plan: str, seen: History | None) -> list[Finding]:
    """Compare the lock's bytes with the ledger, also where they no longer parse."""
    frozen = seen.frozen(plan) if seen is not None else None
    path = project.lock(plan)
    if frozen is None or not path.exists():
        return []
    found = sha256_bytes(read(path))
    if found == frozen[1].lock_digest:
        return []
    text = (
        f"found sha256 {found[:12]}…, expected {frozen[1].lock_digest[:12]}… by ledger record "
        f"{frozen[0].n}"
    )
    return [changed(project.relative(path), text)]


def _in_ledger(project: Project, lock: Lock, seen: History) -> list[Finding]:
    """Compare a lock with its record, and the chain with the head that the lock remembers."""
    path = project.relative(project.lock(lock.plan))
    records = [entry.record for entry in seen.entries]
    chain = Chain(project.ledger(lock.study))
    head = lock.ledger_head.head()
    findings = guarded(path, lambda: chain.check_head(records, head, path))
    frozen = seen.frozen(lock.plan)
    if frozen is None:
        text = f"not in ledger {lock.study}; `harness freeze conf={lock.plan}` completes it"
        return [*findings, incomplete(path, text)]
    record, body = frozen
    findings += _digest_in_ledger(project, lock.plan, seen)
    for name, found, expected in (
        ("question", lock.question, body.question),
        ("attempt", lock.attempt, body.attempt),
        ("plan_digest", lock.plan_digest, body.plan_digest),
    ):
        if found != expected:
            text = f"{name}: found {_short(found)}, expected {_short(expected)}"
            findings.append(changed(path, f"{text} by ledger record {record.n}"))
    if head.count >= record.n:
        text = f"ledger_head: found {head.count} records, but it is record {record.n} itself"
        findings.append(changed(path, text))
    return findings + _parents(project, lock)


def _parents(project: Project, lock: Lock) -> list[Finding]:
    """Compare the select plan's lock and seal with what the selection was made from."""
    if lock.parents is None or lock.selection is None:
        return []
    source = lock.selection.source_plan
    run = project.run(source, lock.selection.run_id)
    pairs = (
        (project.lock(source), lock.parents.select_lock_digest),
        (run.seal, lock.parents.select_seal_digest),
    )
    findings: list[Finding] = []
    for path, expected in pairs:
        name = project.relative(path)
        try:
            found = sha256_bytes(read(path))
        except HarnessError as error:
            findings.append(from_error(name, error))
            continue
        if found != expected:
            findings.append(changed(name, f"not what the selection of {lock.plan} was made from"))
    return findings


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
