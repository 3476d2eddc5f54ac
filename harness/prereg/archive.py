"""An archive of a run or of a study: everything that its verification needs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.ledger.chain import Chain
from harness.ledger.records import History, PlanFrozen, history
from harness.prereg.findings import Finding, incomplete
from harness.prereg.lock import read_lock
from harness.prereg.runs import Recompute
from harness.prereg.tables import locate
from harness.prereg.verify import verify_project
from harness.store.archive import Reader, odd_name, pack, regular_files
from harness.store.canonical import Json
from harness.store.errors import ChangedError, Exit, IncompleteError, UsageError
from harness.store.paths import Project, RunPaths

Again = Callable[[Project, RunPaths], Json]
"""(project, run) → the analysis, computed anew."""

_LEFT_OUT = ("logs", "report", ".lease", ".owner")
"""Parts of a run's folder that can be rebuilt, or that may name the machine."""


@dataclass(frozen=True)
class Subject:
    """What an archive is of: a study, or one run of it."""

    study: str
    plan: str | None = None
    run_id: str | None = None

    def json(self) -> Json:
        """Return it as the manifest holds it."""
        kind = "study" if self.plan is None else "run"
        return {"kind": kind, "study": self.study, "plan": self.plan, "run_id": self.run_id}

    @property
    def file_name(self) -> str:
        """The archive's usual name."""
        return f"{self.study}.tar" if self.plan is None else f"{self.plan}-{self.run_id}.tar"


def pack_subject(project: Project, subject: Subject, path: Path, again: Again) -> Json:
    """Verify a subject, write its archive and return the manifest.

    Raises:
        ChangedError, IncompleteError: it does not verify, so it is not packed. UsageError: a link,
        a special file or an odd name among its files, or an archive of that name.
    """
    for finding in check_subject(project, subject, again, archived=False):
        if finding.code in (Exit.CHANGED, Exit.INCOMPLETE):
            kind = ChangedError if finding.code == Exit.CHANGED else IncompleteError
            raise kind(f"{finding.message}; not packed")
    chain = Chain(project.ledger(subject.study))
    facts = {
        **subject.json(),
        "tool_version": harness.__version__,
        "ledger_head": chain.head.json(),
    }
    return pack(path, dict(_members(project, subject)), facts)


def check_archive(path: Path, into: Path, again: Again) -> list[Finding]:
    """Unpack an archive below an empty folder and return what its verification finds.

    Raises:
        ChangedError, IncompleteError: naming the member that is not what was packed.
    """
    manifest = Reader(path).unpack(into)
    kind, study = manifest.get("kind"), manifest.get("study")
    plan, run_id = manifest.get("plan"), manifest.get("run_id")
    named = [study, *((plan, run_id) if kind == "run" else ())]
    if kind not in ("study", "run") or not all(_plain(name) for name in named):
        raise ChangedError(f"{path.name}: names no study and no run")
    subject = Subject(str(study)) if kind == "study" else Subject(str(study), plan, run_id)
    return check_subject(Project(into), subject, again, archived=True)


def _plain(name: object) -> bool:
    return isinstance(name, str) and odd_name(name) is None and "/" not in name


def check_subject(
    project: Project, subject: Subject, again: Again, *, archived: bool
) -> list[Finding]:
    """Return what a verification of exactly this subject finds."""

    def recompute(run: RunPaths) -> Json:
        return again(project, run)

    ledger = project.ledger(subject.study)
    if not ledger.is_dir():
        raise IncompleteError(f"ledgers/{subject.study}: missing")
    if subject.plan is None or subject.run_id is None:
        if archived:
            return verify_project(project, recompute=recompute, archived=True)
        return verify_project(project, ledger) + _of_plans(project, subject.study, recompute)
    run = project.run(subject.plan, subject.run_id).root
    if not run.is_dir():
        raise IncompleteError(f"{project.relative(run)}: missing")
    found = verify_project(project, ledger)
    return found + verify_project(project, run, recompute=recompute, archived=archived)


def _of_plans(project: Project, study: str, recompute: Recompute) -> list[Finding]:
    """Return what is found about every lock of a study, and about every run of it."""
    seen = history(Chain(project.ledger(study)))
    found: list[Finding] = []
    for plan in _plans(project, study):
        if project.prereg(plan).is_dir():
            found += verify_project(project, project.prereg(plan))
        if project.runs(plan).is_dir():
            found += verify_project(project, project.runs(plan), recompute=recompute)
        elif seen.registered(plan):
            text = "missing, but the ledger holds a start"
            found.append(incomplete(project.relative(project.runs(plan)), text))
    return found


def _plans(project: Project, study: str) -> list[str]:
    seen = history(Chain(project.ledger(study)))
    return [body.plan for _, body in seen.of(PlanFrozen)]


def _members(project: Project, subject: Subject) -> Iterator[tuple[str, Path]]:
    """Yield every file of an archive under its name there."""
    chain = Chain(project.ledger(subject.study))
    seen = history(chain)
    yield from _named(project, regular_files(chain.folder))
    if chain.head_file.exists():
        yield from _named(project, [chain.head_file])
    yield from _named(project, regular_files(project.anchors(subject.study)))
    plans = [subject.plan] if subject.plan else _plans(project, subject.study)
    for plan in plans:
        yield from _lock(project, plan)
    if subject.plan is None:
        for plan in plans:
            for run in sorted(path for path in project.runs(plan).glob("*") if path.is_dir()):
                yield from _run(project, run)
        return
    assert subject.run_id is not None
    yield from _run(project, project.run(subject.plan, subject.run_id).root)
    yield from _parents(project, subject.plan, seen)


def _named(project: Project, paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for path in paths:
        if not (path.name.startswith(".") and path.name.endswith(".tmp")):
            yield path.relative_to(project.root).as_posix(), path


def _lock(project: Project, plan: str) -> Iterator[tuple[str, Path]]:
    yield from _named(project, regular_files(project.prereg(plan)))
    for name in read_lock(project, plan).files.conf:
        path = locate(project, name)
        if name.startswith("conf/") and path.is_file():
            yield name, path


def _run(project: Project, root: Path) -> Iterator[tuple[str, Path]]:
    for path in regular_files(root):
        if path.relative_to(root).parts[0] not in _LEFT_OUT:
            yield from _named(project, [path])


def _parents(project: Project, plan: str, seen: History) -> Iterator[tuple[str, Path]]:
    """The lock and the seal that a selection rests on."""
    lock = read_lock(project, plan)
    if lock.selection is None:
        return
    source = lock.selection.source_plan
    if seen.frozen(source) is None:
        raise UsageError(f"{plan}: its selection is from {source}, which the ledger does not know")
    yield from _named(
        project,
        [project.lock(source), project.run(source, lock.selection.run_id).seal],
    )
