"""One lock against itself, against the files that it covers, and against the ledger."""

from __future__ import annotations

from typing import Literal

from harness.ledger.chain import Chain
from harness.ledger.records import History
from harness.plan.compose import compose
from harness.plan.digest import plan_digest, plan_json
from harness.plan.order import order_table
from harness.plan.resolve import is_resolved, resolve
from harness.plan.schema import Selection
from harness.prereg.amendments import accepted_conf
from harness.prereg.environment import environment as environment_of
from harness.prereg.environment import environment_differences
from harness.prereg.findings import Finding, changed, from_error, guarded, incomplete, remark
from harness.prereg.lock import Environment, Lock, Selected
from harness.prereg.partitions import count_of
from harness.prereg.selection import rank
from harness.prereg.tables import differences
from harness.store.digests import digest, sha256_bytes
from harness.store.errors import ChangedError, Exit, HarnessError
from harness.store.files import read
from harness.store.paths import Project

Level = Literal["registered", "replication", "archive"]
"""What must be as locked. `registered`: everything. `replication`: all but code and environment.
`archive`: what an archive holds by itself; conf, model, code and environment are remarks."""

STRICT: dict[Level, frozenset[str]] = {
    "registered": frozenset({"conf", "model", "patch", "code", "environment", "device"}),
    "replication": frozenset({"conf", "model", "patch"}),
    "archive": frozenset({"patch"}),
}


def check_lock(
    project: Project,
    lock: Lock,
    level: Level,
    environment: Environment | None,
    seen: History | None = None,
) -> list[Finding]:
    """Re-derive a lock from what it keeps, and compare the files that it covers."""
    path = project.relative(project.lock(lock.plan))
    findings = guarded(path, lambda: _derived(lock))
    if project.lock(lock.plan).parent.name != lock.plan:
        findings.append(changed(path, f"plan: found {lock.plan}, expected its folder's name"))
    for part in ("conf", "model", "patch", "code"):
        strict = part in STRICT[level]
        conf = part == "conf"
        table = accepted_conf(project, lock, seen) if conf else lock.files.table(part)
        found = [from_error(name, error) for name, error in differences(project, table)]
        same = (
            "; comment or layout only" if part == "conf" and found and _same(project, lock) else ""
        )
        findings += [
            Finding(one.code if strict else Exit.DONE, one.path, f"{one.message}{same} (in {path})")
            for one in found
        ]
    kind = changed if "environment" in STRICT[level] else remark
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


def digest_in_ledger(project: Project, plan: str, seen: History | None) -> list[Finding]:
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


def check_in_ledger(project: Project, lock: Lock, seen: History) -> list[Finding]:
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
    findings += digest_in_ledger(project, lock.plan, seen)
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
