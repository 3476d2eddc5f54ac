"""`harness analyze`: verdicts again, from the sealed records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import ChangedError

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.prereg.lock import Lock
    from harness.store.paths import Project, RunPaths


def main(argv: Sequence[str]) -> int:
    """Recompute a run's analysis; exit 3 if its verdicts are not the recorded ones."""
    made = parser("analyze", "recompute a run's verdicts from its sealed records", json=True)
    made.add_argument("run", metavar="RUN", help="a plan (its registered run), PLAN@N or a folder")
    args = made.parse_args(argv)
    from harness.cli.runs import find_run
    from harness.cli.standing import opened
    from harness.report.tables import verdict_table
    from harness.store.files import replace_json
    from harness.store.paths import find_project

    project = find_project()
    paths = find_run(project, args.run)
    analysis = again(paths, project)
    opened(project, analysis["study"], paths)
    recorded = _recorded(paths)
    if recorded is not None and recorded != _words(analysis):
        raise ChangedError(
            f"{project.relative(paths.root)}: recomputed verdicts differ from the recorded ones; "
            "run `harness verify`"
        )
    replace_json(paths.analysis, analysis)
    if args.json:
        print_json(analysis)
        return 0
    console().print(verdict_table(analysis))
    note(f"written to {project.relative(paths.analysis)}")
    return 0


def again(
    paths: RunPaths, project: Project | None = None, plan: Plan | None = None
) -> dict[str, Any]:
    """Return a sealed run's analysis, computed from its manifest and journal alone.

    Predictions are those in force when it started, or those of `plan`.

    Raises:
        ChangedError: the files are not those of the seal. IncompleteError: not sealed.
    """
    from harness.cli.wiring import analyse
    from harness.plan.digest import plan_from_json
    from harness.plan.order import order_table
    from harness.store.digests import check_table
    from harness.store.files import read_json
    from harness.store.paths import find_project

    project = project or find_project()
    sealed: Any = read_json(paths.seal)
    check_table(paths.root, sealed["files"])
    manifest: Any = read_json(paths.manifest)
    run_plan = plan_from_json(manifest["plan_json"])
    order = order_table(run_plan, manifest["plan_digest"], manifest["nonce"])
    lock = _lock(project, manifest)
    judged = plan or _in_force(project, lock) or run_plan
    attempt = lock.attempt if lock else 1
    return analyse(judged, order, paths, role=manifest["role"], attempt=attempt)


def _lock(project: Project, manifest: Any) -> Lock | None:
    """The attempt stands in the lock that the run was started under."""
    from harness.prereg.lock import read_lock
    from harness.store.errors import IncompleteError

    if manifest["lock_digest"] is None:
        return None
    try:
        return read_lock(project, manifest["plan"])
    except IncompleteError:
        return None


def _in_force(project: Project, lock: Lock | None) -> Plan | None:
    from harness.prereg.amendments import plan_in_force

    return None if lock is None else plan_in_force(project, lock)


def _words(analysis: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["word"] for one in analysis["verdicts"]}


def _recorded(paths: RunPaths) -> dict[str, str] | None:
    from harness.store.files import read_json

    return _words(read_json(paths.analysis)) if paths.analysis.exists() else None
