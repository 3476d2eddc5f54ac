"""Changes of a frozen plan, in the open: what is predicted may be amended, what is measured not.

An amendment is a file beside the lock and a record in the ledger. The record says how much had been
seen by then, derived from the chain. One that was made before anything had run replaces the rule;
a later one is shown beside the original, and the verdicts that it touches are marked deviated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from harness.ledger.chain import Chain
from harness.ledger.records import Access, History, PlanAmended, history
from harness.plan.digest import plan_from_json
from harness.plan.schema import Plan
from harness.prereg.findings import Finding, changed, deviated, from_error, incomplete, remark
from harness.prereg.lock import FileEntry, Lock, Part, Sha256
from harness.store.canonical import Json, canonical
from harness.store.digests import FileTable, digest, sha256_bytes
from harness.store.errors import ChangedError, HarnessError
from harness.store.files import read, read_json
from harness.store.paths import Project

AMENDABLE = ("notes", "predictions", "title")
"""Keys that decide what is concluded. All others decide what is measured; they need a new lock."""

CLEAN: Access = "nothing_run"


class Change(Part):
    """One key that an amendment changed; an absent value is None."""

    key: str
    before: Any
    after: Any


class Amendment(Part):
    """The content of amendments/NNNN.json."""

    format: Literal[1] = 1
    plan: str
    number: Annotated[int, Field(ge=1)]
    reason: str
    amended_utc: str
    access: Access
    lock_digest: Sha256
    plan_json: dict[str, Any]
    """The amended plan, selection resolved."""
    plan_digest: Sha256
    changes: list[Change]
    """Against the plan as it stood before; empty if only comments or layout changed."""
    conf: dict[str, FileEntry]
    """The plan's source files from now on."""

    def data(self) -> bytes:
        """Return the bytes of the file."""
        return canonical(self.model_dump(mode="json")) + b"\n"


@dataclass(frozen=True)
class Amended:
    """An amendment with its place in the chain."""

    record: int
    at: str
    content: Amendment

    @property
    def clean(self) -> bool:
        """Whether it touches no verdict, or was made before anything had run."""
        return self.content.access == CLEAN or not self.affected

    @property
    def affected(self) -> list[Change]:
        """Return the changes that decide a verdict."""
        return [one for one in self.content.changes if one.key.startswith("predictions.")]


def path_of(project: Project, plan: str, number: int) -> Path:
    """Return the file of a plan's n-th amendment."""
    return project.prereg(plan) / "amendments" / f"{number:04d}.json"


def amendments(project: Project, plan: str, seen: History) -> list[Amended]:
    """Return a plan's amendments, oldest first, each checked against its record.

    Raises:
        IncompleteError: a file is missing. ChangedError: it is not what was recorded.
    """
    return [
        Amended(record.n, record.at, _read(project, plan, body, record.n))
        for record, body in seen.of(PlanAmended, plan)
    ]


def _read(project: Project, plan: str, body: PlanAmended, record: int) -> Amendment:
    path = path_of(project, plan, body.number)
    name = project.relative(path)
    found = sha256_bytes(read(path))
    if found != body.file_digest:
        raise ChangedError(
            f"{name}: found sha256 {found[:12]}…, expected {body.file_digest[:12]}… by ledger "
            f"record {record}"
        )
    try:
        content = Amendment.model_validate_json(canonical(read_json(path)))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ChangedError(f"{name}: {key}: {first['msg']}") from error
    said = (content.plan, content.number, content.reason, content.access)
    if said != (body.plan, body.number, body.reason, body.access):
        raise ChangedError(f"{name}: says something else than ledger record {record}")
    return content


def differing(before: Json, after: Json) -> list[Change]:
    """Return what differs between two plans: whole keys, and predictions one by one."""
    rows = [
        Change(key=key, before=before.get(key), after=after.get(key))
        for key in sorted((before.keys() | after.keys()) - {"predictions"})
        if before.get(key) != after.get(key)
    ]
    old, new = ({one["id"]: one for one in plan.get("predictions", [])} for plan in (before, after))
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            change = Change(key=f"predictions.{name}", before=old.get(name), after=new.get(name))
            rows.append(change)
    return rows


def in_force(lock: Lock, amended: list[Amended]) -> Plan:
    """Return the plan that decides: the frozen one with what was amended before anything ran."""
    clean = [one for one in amended if one.content.access == CLEAN]
    return plan_from_json(clean[-1].content.plan_json) if clean else lock.typed_plan()


def plan_in_force(project: Project, lock: Lock) -> Plan:
    """Return the plan that decides a locked run's verdicts, from the ledger of its study."""
    seen = history(Chain(project.ledger(lock.study)))
    return in_force(lock, amendments(project, lock.plan, seen))


def current_table(project: Project, lock: Lock, part: str) -> FileTable:
    """Return one of a lock's file tables, the conf files as the last amendment left them."""
    if part != "conf":
        return lock.files.table(part)
    return accepted_conf(project, lock, history(Chain(project.ledger(lock.study))))


def accepted_conf(project: Project, lock: Lock, seen: History | None) -> FileTable:
    """Return the table of the conf files as the last amendment left them."""
    try:
        found = amendments(project, lock.plan, seen) if seen is not None else []
    except HarnessError:
        found = []
    if not found:
        return lock.files.table("conf")
    return {name: entry.model_dump() for name, entry in found[-1].content.conf.items()}


def check_amendments(project: Project, lock: Lock, seen: History) -> Iterator[Finding]:
    """Yield everything about a plan's amendments: what is broken, and what deviates."""
    folder = path_of(project, lock.plan, 1).parent
    recorded = list(seen.of(PlanAmended, lock.plan))
    yield from _strays(
        project, folder, {path_of(project, lock.plan, b.number) for _, b in recorded}
    )
    try:
        found = amendments(project, lock.plan, seen)
    except HarnessError as error:
        yield from_error(project.relative(folder), error)
        return
    before = lock.plan_json
    for place, one in enumerate(found, start=1):
        path = project.relative(path_of(project, lock.plan, one.content.number))
        yield from _derived(path, lock, one, place, before, seen)
        before = one.content.plan_json
        if one.clean:
            text = "touches no verdict" if not one.affected else "before anything had run"
            yield remark(path, f"amended at {one.at} (ledger record {one.record}), {text}")
        else:
            yield deviated(path, "; ".join(sentence(lock, one, change) for change in one.affected))


def _strays(project: Project, folder: Path, known: set[Path]) -> Iterator[Finding]:
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in names:
        if path not in known and not path.name.startswith("."):
            yield incomplete(project.relative(path), "not in the ledger; remove it and amend again")


def _derived(
    path: str, lock: Lock, one: Amended, place: int, before: Json, seen: History
) -> Iterator[Finding]:
    content = one.content
    facts: dict[str, tuple[object, object]] = {
        "number": (content.number, place),
        "access": (content.access, seen.before(one.record).access(lock.plan)),
        "plan_digest": (content.plan_digest, digest(content.plan_json)),
        "lock_digest": (content.lock_digest, sha256_bytes(lock.data())),
        "changes": (content.changes, differing(before, content.plan_json)),
    }
    for name, (found, expected) in facts.items():
        if found != expected:
            yield changed(path, f"{name}: found {found}, but derived {expected}")
    for change in content.changes:
        if change.key.split(".")[0] not in AMENDABLE:
            yield changed(path, f"changes: {change.key} cannot be amended")


def sentence(lock: Lock, one: Amended, change: Change) -> str:
    """Return what an amendment did to one prediction: both rules, with their times."""
    name = change.key.partition(".")[2]
    return (
        f"DEVIATED {name}: amended after {SEEN[one.content.access]} (ledger record {one.record}, "
        f"{one.at}, reason: {one.content.reason}); original rule {rule(change.before)} of "
        f"{lock.frozen_utc}, amended rule {rule(change.after)} of {one.at}"
    )


SEEN: dict[str, str] = {
    "nothing_run": "nothing had run",
    "run_started": "the run had started",
    "run_sealed": "the run was sealed",
    "results_opened": "results were opened",
}


def rule(prediction: Json | None) -> str:
    """Return a prediction's decision rule in a few words."""
    if prediction is None:
        return "none"
    low, high = prediction["region"]
    ends = f"[{'-∞' if low is None else low}, {'∞' if high is None else high}]"
    opened = ", open" if prediction.get("open") else ""
    return f"{ends}{opened} by {prediction.get('rule', 'ci')} ({prediction['family']})"
