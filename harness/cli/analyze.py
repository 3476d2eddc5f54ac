"""`harness analyze`: verdicts again, from the sealed records, or on any table with `--table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import ChangedError, Exit, UsageError

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.prereg.lock import Lock
    from harness.store.paths import Project, RunPaths


def main(argv: Sequence[str]) -> int:
    """Recompute a run's analysis; exit 3 if its verdicts are not the recorded ones."""
    made = parser("analyze", "verdicts from a run's sealed records, or on any table", json=True)
    made.add_argument(
        "run", metavar="RUN", nargs="?", help="a plan (its registered run), PLAN@N or a folder"
    )
    made.add_argument("--table", metavar="FILE", help="paired records: .csv, .tsv or .parquet")
    made.add_argument(
        "--plan", metavar="FILE", help="what the table is called and predicted (YAML)"
    )
    args = made.parse_args(argv)
    if args.table or args.plan:
        return _table(args.run, args.table, args.plan, as_json=args.json)
    if args.run is None:
        raise UsageError("analyze: name a RUN, or --table FILE and --plan FILE")
    from harness.cli.runs import find_run
    from harness.cli.standing import opened, verified
    from harness.report.tables import verdict_table
    from harness.store.files import replace_json
    from harness.store.paths import find_project

    project = find_project()
    paths = find_run(project, args.run)
    code = verified(project, paths)
    if code in (Exit.CHANGED, Exit.INCOMPLETE):
        return code
    analysis = again(paths, project)
    opened(project, analysis["study"], paths)
    recorded = _recorded(paths)
    if recorded is not None and recorded != _words(analysis):
        raise ChangedError(
            f"{project.relative(paths.root)}: recomputed verdicts differ from the recorded ones; "
            "run `harness verify`"
        )
    kept = paths.analysis.exists()
    if not kept:
        replace_json(paths.analysis, analysis)
    if args.json:
        print_json(analysis)
        return 0
    console().print(verdict_table(analysis))
    where = project.relative(paths.analysis)
    note(f"the kept {where} says the same" if kept else f"written to {where}")
    return 0


def _table(run: str | None, table: str | None, plan: str | None, *, as_json: bool) -> int:
    from pathlib import Path

    from harness.cli.tables import analyze_table

    if run is not None or not table or not plan:
        raise UsageError("analyze: a table needs both --table FILE and --plan FILE, and no RUN")
    return analyze_table(Path(table), Path(plan), as_json=as_json)


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
