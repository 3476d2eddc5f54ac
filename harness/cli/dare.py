"""`harness dare`: cheat ten ways on a copy of the study; each is caught with its sentence."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import ChangedError, Exit, IncompleteError

if TYPE_CHECKING:
    from harness.prereg.cheats import Cheat, Victim
    from harness.prereg.findings import Finding
    from harness.store.paths import Project

_PARTS = ("conf", "preregistrations", "ledgers", "runs", "anchors")


def main(argv: Sequence[str]) -> int:
    """Try every cheat on a fresh copy; exit 3 if one of them gets through."""
    made = parser("dare", "cheat ten ways on a copy of the study; each is caught", json=True)
    made.add_argument("plan", nargs="?", help="a finished plan; default: the newest judged one")
    args = made.parse_args(argv)
    from harness.prereg.cheats import CHEATS
    from harness.store.paths import find_project

    project = find_project()
    study, plan, run_id = _target(project, args.plan)
    caught: list[tuple[str, Finding | None]] = []
    for cheat in CHEATS:
        with tempfile.TemporaryDirectory(prefix="harness-dare-") as folder:
            victim = _copy(project, Path(folder).resolve() / "study", study, plan, run_id)
            if not caught:
                _refuse_broken(victim)
            caught.append((cheat.name, _try(victim, cheat)))
        if not args.json:
            _print(len(caught), *caught[-1])
    missed = [name for name, finding in caught if finding is None]
    if args.json:
        print_json([_json(name, finding) for name, finding in caught])
    else:
        said = f"{len(caught) - len(missed)} of {len(caught)} cheats were caught"
        console().print(f"{said} on a copy of {plan} {run_id}; nothing here was touched")
    return Exit.CHANGED if missed else Exit.DONE


def _target(project: Project, wanted: str | None) -> tuple[str, str, str]:
    """Return study, plan and run of the newest registered run with verdicts.

    Raises:
        IncompleteError: there is none.
    """
    from harness.ledger.chain import Chain
    from harness.ledger.records import Verdicts, history
    from harness.prereg.verify import studies

    found: tuple[str, str, str] | None = None
    for study in studies(project):
        for _, body in history(Chain(project.ledger(study))).of(Verdicts):
            if wanted in (None, body.plan):
                found = study, body.plan, body.run_id
    if found is None:
        what = wanted or "this project"
        raise IncompleteError(f"{what}: no finished study to cheat on; run a frozen plan first")
    return found


def _copy(project: Project, into: Path, study: str, plan: str, run_id: str) -> Victim:
    from harness.prereg.cheats import Victim
    from harness.store.paths import Project

    for part in _PARTS:
        source = project.conf if part == "conf" else project.root / part
        if source.is_dir():
            skip = shutil.ignore_patterns("logs", "report", ".lease", ".owner")
            shutil.copytree(source, into / part, ignore=skip)
    copy = Project(into)
    for path in sorted((into / "preregistrations").glob("*/lock.json")):
        _link_models(project, copy, path.parent.name)
    return Victim(copy, study, plan, copy.run(plan, run_id))


def _link_models(project: Project, copy: Project, plan: str) -> None:
    """Checkpoints inside the project are locked too; hard links spare their bytes."""
    from harness.prereg.lock import read_lock

    for name in read_lock(copy, plan).files.model:
        source, target = project.root / name, copy.root / name
        if name.startswith("harness/") or target.exists() or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(source)
        except OSError:
            shutil.copy2(source, target)


def _refuse_broken(victim: Victim) -> None:
    for finding in _verify(victim):
        if finding.code in (Exit.CHANGED, Exit.INCOMPLETE):
            raise ChangedError(f"the study itself does not verify: {finding.message}")


def _try(victim: Victim, cheat: Cheat) -> Finding | None:
    """Cheat, verify, and return the finding that caught it."""
    cheat.act(victim)
    found = [one for one in _verify(victim) if one.code in (Exit.CHANGED, Exit.INCOMPLETE)]
    return min(found, key=lambda one: one.code, default=None)


def _verify(victim: Victim) -> list[Finding]:
    from harness.cli.analyze import again
    from harness.prereg.verify import verify_project

    project = victim.project
    return verify_project(project, recompute=lambda run: again(run, project))


def _print(number: int, name: str, finding: Finding | None) -> None:
    out = console()
    out.print(f"{number:2}. {name}", markup=False)
    if finding is None:
        note(f"harness: NOT CAUGHT: {name}")
        return
    out.print(f"    caught ({int(finding.code)}): {finding.message}", markup=False)


def _json(name: str, finding: Finding | None) -> dict[str, object]:
    caught = finding is not None
    return {"cheat": name, "caught": caught, "sentence": finding.message if finding else None}
