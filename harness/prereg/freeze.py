"""Freezing a plan: every check first, then the lock, then the copies of its patch, then the ledger.

The lock's file name and the ledger's next place are both taken exclusively, so of several freezes
of one name exactly one succeeds. After a crash between lock and ledger the same freeze, called
again, completes the record, provided that the lock is intact, belongs to the same plan, and no
ledger knows the name; whoever brings another plan is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import harness
from harness.ledger.chain import Chain, Head
from harness.ledger.records import History, PlanFrozen, append, history
from harness.plan.compose import Composed
from harness.plan.digest import plan_digest, plan_json
from harness.plan.order import order_table
from harness.plan.resolve import resolve
from harness.plan.schema import SCHEMA, Plan
from harness.prereg.claims import check_claims
from harness.prereg.environment import device_class as device_class_of
from harness.prereg.environment import environment as environment_of
from harness.prereg.environment import git_state
from harness.prereg.interpolations import refuse_interpolations
from harness.prereg.lock import (
    Environment,
    Figures,
    FileEntry,
    Files,
    LedgerHead,
    Lock,
    Selected,
    lock_digest,
    read_lock,
)
from harness.prereg.parents import FiguresOf, apply_selection
from harness.prereg.partitions import Draw, draw_partitions
from harness.prereg.spent import draw_unopened, opened_items, scored_items
from harness.prereg.tables import differences, table_of
from harness.prereg.turning import check_turning
from harness.prereg.verify import studies
from harness.store.canonical import canonical
from harness.store.clock import CLOCK, Clock
from harness.store.digests import FileTable, sha256_bytes
from harness.store.errors import (
    ChangedError,
    IncompleteError,
    RefusedError,
    UsageError,
)
from harness.store.files import create, read
from harness.store.paths import Project


@dataclass(frozen=True)
class Inputs:
    """What the floors above know and a freeze needs."""

    draw: Draw
    model_files: Sequence[Path]
    code_files: Sequence[Path]
    figures: FiguresOf | None = None
    device_class: str | None = None
    """The model and count of the devices; found out here if None."""
    environment: Environment | None = None


@dataclass(frozen=True)
class FreezeReport:
    """What a freeze did, or would do."""

    plan: str
    path: str
    """The lock's project-relative name."""
    plan_digest: str
    attempt: int
    selection: Selected | None
    irrevocable: tuple[str, ...]
    """What cannot be undone, one sentence each."""
    flags: tuple[str, ...]
    """What is allowed but weak, one sentence each."""
    lock: Lock | None
    """None for a dry run: the real freeze draws its own nonce, and with it its own items."""
    lock_digest: str | None
    head: Head | None
    """The ledger's head after the freeze."""
    completed: bool = False
    """Whether an earlier freeze had written the lock and only its ledger record was missing."""

    @property
    def ranking(self) -> tuple[Figures, ...]:
        """The candidates, best first, then the inadmissible ones."""
        figures = self.selection.figures if self.selection else []
        return tuple(sorted(figures, key=lambda one: one.rank or len(figures) + 1))


def freeze(
    project: Project,
    composed: Composed,
    inputs: Inputs,
    *,
    dry_run: bool = False,
    clock: Clock = CLOCK,
    announce: Callable[[str], None] = lambda _: None,
) -> FreezeReport:
    """Check a plan and write its lock and its ledger record; nothing is written in a dry run.

    `announce` is told of every program that is started (git).

    Raises:
        RefusedError: frozen before, a broken ledger, or a selection that cannot be made.
        UsageError: the plan cannot be frozen as it is. ChangedError, IncompleteError: the select
        run that it rests on does not verify. StorageError: the disk refused; no half is written.
    """
    plan = composed.plan
    chain = Chain(project.ledger(plan.study))
    _refuse_known(project, plan.plan)
    if project.lock(plan.plan).exists():
        return _complete(project, composed, chain, dry_run=dry_run, clock=clock)
    refuse_interpolations(project, composed.sources)
    seen = history(chain.intact())
    attempt = len(seen.locks_of(plan.question)) + 1
    plan, selection, parents = apply_selection(project, plan, seen, inputs.figures)
    check_turning(plan, attempt)
    patches = _patches(project, plan)
    histories = [history(Chain(project.ledger(study))) for study in studies(project)]
    nonce, partitions = draw_unopened(
        plan.plan,
        opened_items(project, histories),
        lambda one: draw_partitions(plan, plan_digest(plan), one, inputs.draw),
    )
    own = set(partitions[plan.stage].ids) if plan.stage in partitions else set()
    flags = check_claims(plan, scored_items(project, histories), own)
    lock = Lock(
        schema=SCHEMA,
        plan=plan.plan,
        study=plan.study,
        stage=plan.stage,
        question=plan.question,
        attempt=attempt,
        tool_version=harness.__version__,
        frozen_utc=clock.utc(),
        plan_json=plan_json(plan),
        plan_digest=plan_digest(plan),
        nonce=nonce,
        order_digest=order_table(plan, plan_digest(plan), nonce).digest,
        partitions=partitions,
        selection=selection,
        files=_files(project, composed, inputs, patches),
        environment=inputs.environment or environment_of(),
        device_class=inputs.device_class or device_class_of(plan.model.device),
        threads=plan.schedule.threads,
        parents=parents,
        git=git_state(project.root, announce),
        ledger_head=LedgerHead(**_head(seen).json()),
    )
    report = replace(_report(project, lock), flags=tuple(flags))
    if dry_run:
        return report
    _keep_line_endings(project)
    _publish(project, lock)
    return _record(project, chain, lock, report, patches, clock)


def _keep_line_endings(project: Project) -> None:
    """Tell git to leave the bytes of hashed files alone, where the project does not say so yet."""
    own = project.root / ".gitattributes"
    said = own.read_text(encoding="utf-8", errors="replace") if own.is_file() else ""
    for name in ("conf", "preregistrations", "ledgers", "runs"):
        path = project.root / name / ".gitattributes"
        needed = name != "conf" or path.parent.is_dir()
        if needed and f"{name}/** -text" not in said and not path.exists():
            with contextlib.suppress(FileExistsError):
                create(path, b"* -text\n")


def _publish(project: Project, lock: Lock) -> None:
    try:
        create(project.lock(lock.plan), lock.data())
    except FileExistsError as error:
        raise RefusedError(
            f"{lock.plan}: another freeze of this name was faster; changes go through "
            f"`harness amend conf={lock.plan}`"
        ) from error


def _record(
    project: Project,
    chain: Chain,
    lock: Lock,
    report: FreezeReport,
    patches: dict[str, bytes],
    clock: Clock,
) -> FreezeReport:
    """Copy the patch, then append the ledger record: the step that makes the freeze count."""
    for name, data in patches.items():
        path = project.root / name
        try:
            create(path, data)
        except FileExistsError as error:
            if read(path) != data:
                raise RefusedError(f"{name}: another file is there; remove it") from error
    written = lock_digest(project, lock.plan)
    body = PlanFrozen(
        plan=lock.plan,
        question=lock.question,
        attempt=lock.attempt,
        lock_digest=written,
        plan_digest=lock.plan_digest,
    )

    def guard(seen: History) -> None:
        if seen.knows(lock.plan):
            raise _frozen_before(lock.plan)
        number = len(seen.locks_of(lock.question)) + 1
        if number != lock.attempt:
            raise RefusedError(
                f"{project.relative(project.lock(lock.plan))}: says attempt {lock.attempt}, but by "
                f"now it would be attempt {number} on {lock.question}; the ledger never knew this "
                "lock, so remove it and freeze again"
            )

    record = append(chain, body, clock, guard=guard)
    return replace(report, lock=lock, lock_digest=written, head=Head(record.n, record.digest))


def _complete(
    project: Project, composed: Composed, chain: Chain, *, dry_run: bool, clock: Clock
) -> FreezeReport:
    """Finish a freeze that stopped after its lock, if it is this plan's."""
    plan, name = composed.plan, project.relative(project.lock(composed.plan.plan))
    try:
        lock = read_lock(project, plan.plan)
    except (ChangedError, IncompleteError) as error:
        raise RefusedError(
            f"{error}; no ledger knows this lock, so remove it and freeze again"
        ) from error
    chosen = lock.selection.chosen if lock.selection else None
    wanted = resolve(plan, chosen) if plan.selection and chosen else plan
    if canonical(plan_json(wanted)) != canonical(lock.plan_json):
        raise RefusedError(
            f"{name}: another plan was frozen under this name; changes go through "
            f"`harness amend conf={plan.plan}`"
        )
    patches = _patches(project, wanted)
    if {key: sha256_bytes(data) for key, data in patches.items()} != {
        key: entry.sha256 for key, entry in lock.files.patch.items()
    }:
        raise RefusedError(f"{name}: the patch changed since this lock was written; restore it")
    for part in ("conf", "model", "code"):
        for _, problem in differences(project, lock.files.table(part)):
            raise RefusedError(
                f"{name}: {problem}; no ledger knows this lock, so remove it and freeze again"
            )
    report = replace(_report(project, lock), completed=True)
    if dry_run:
        return report
    return _record(project, chain, lock, report, patches, clock)


def _report(project: Project, lock: Lock) -> FreezeReport:
    confirm = lock.partitions.get("confirm")
    sentences = [
        f"{lock.plan} cannot be frozen again; changes are amendments, shown with every verdict",
        f"this is attempt {lock.attempt} on {lock.question}, and counts even if it never runs",
        "the first run that starts is the registered one, for ever, finished or not",
    ]
    if confirm:
        sentences.append(
            f"{confirm.count} confirm items are drawn at this moment and never redrawn"
        )
    return FreezeReport(
        plan=lock.plan,
        path=project.relative(project.lock(lock.plan)),
        plan_digest=lock.plan_digest,
        attempt=lock.attempt,
        selection=lock.selection,
        irrevocable=tuple(sentences),
        flags=(),
        lock=None,
        lock_digest=None,
        head=None,
    )


def _refuse_known(project: Project, plan: str) -> None:
    """Refuse a name that any ledger of the project knows, whatever study the plan now claims."""
    for study in studies(project):
        if not history(Chain(project.ledger(study)).intact()).knows(plan):
            continue
        if not project.lock(plan).exists():
            raise RefusedError(
                f"{project.relative(project.lock(plan))}: missing, but ledger {study} knows the "
                "plan; restore it from version control, it is never written anew"
            )
        raise _frozen_before(plan)


def _frozen_before(plan: str) -> RefusedError:
    return RefusedError(
        f"{plan}: frozen before; changes go through `harness amend conf={plan}`, and another plan "
        "on the question needs a name of its own"
    )


def _head(seen: History) -> Head:
    last = seen.entries[-1].record if seen.entries else None
    return Head(last.n, last.digest) if last else Head(0, "0" * 64)


def _patches(project: Project, plan: Plan) -> dict[str, bytes]:
    """Return the copies to make of every patch file: project-relative name → bytes."""
    found: dict[str, bytes] = {}
    folder = project.relative(project.prereg(plan.plan))
    for arm, spec in plan.arms.items():
        for name in spec.patch:
            path = project.root / name
            where = f"conf/{plan.plan}.yaml: arms.{arm}.patch: {name}"
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise UsageError(f"{where}: lies outside the project; copy it inside")
            if path.is_symlink() or not path.is_file():
                raise UsageError(f"{where}: no such regular file")
            found[f"{folder}/patch/{Path(name).as_posix()}"] = read(path)
    return found


def _files(
    project: Project, composed: Composed, inputs: Inputs, patches: dict[str, bytes]
) -> Files:
    patch = {
        name: FileEntry(bytes=str(len(data)), sha256=sha256_bytes(data))
        for name, data in sorted(patches.items())
    }
    return Files(
        conf=_entries(table_of(project, composed.sources)),
        model=_entries(table_of(project, inputs.model_files)),
        patch=patch,
        code=_entries(table_of(project, inputs.code_files)),
    )


def _entries(table: FileTable) -> dict[str, FileEntry]:
    return {name: FileEntry(**entry) for name, entry in table.items()}
