"""`harness report`: a run's report again, from its sealed records and what the ledger says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.anchor import add_options, saved_heads, standings, wanted
from harness.cli.output import note
from harness.cli.parsing import parser
from harness.store.errors import ChangedError, Exit, worst

if TYPE_CHECKING:
    from harness.ledger.anchors import Standing
    from harness.store.canonical import Json
    from harness.store.paths import Project, RunPaths


def main(argv: Sequence[str]) -> int:
    """Write the report and print the path of its page, or compare the one that is there."""
    made = parser("report", "write a run's report again: HTML, Markdown, LaTeX, numbers")
    made.add_argument("run", metavar="RUN", help="a plan (its registered run), PLAN@N or a folder")
    made.add_argument(
        "--check", action="store_true", help="write nothing; exit 3 where the report was edited"
    )
    add_options(made)
    args = made.parse_args(argv)
    from harness.cli.analyze import again
    from harness.cli.conclude import report
    from harness.cli.runs import find_run
    from harness.cli.standing import opened, shown, verified
    from harness.store.paths import find_project

    project = find_project()
    paths = find_run(project, args.run)
    heads = {name: head for name, (head, _) in saved_heads(wanted(args)).items()}
    code = verified(project, paths, heads)
    if code in (Exit.CHANGED, Exit.INCOMPLETE):
        return code
    analysis = again(paths, project)
    study = analysis["study"]
    anchor = _anchor(project, study, analysis["plan"], args)
    if not args.check:
        opened(project, study, paths)
    said = shown(
        project, study, paths, analysis, anchor.text if anchor and anchor.anchored else None
    )
    if anchor and not anchor.anchored:
        said["threats"].append(anchor.text)
    if args.check:
        _check(project, paths, said)
        return Exit.DONE
    for path in report(project, paths, said):
        note(project.relative(path))
    codes = [Exit(int(said.get("exit_code", 0))), code]
    if args.require_anchor and not (anchor and anchor.anchored):
        codes.append(Exit.UNANCHORED)
        note(f"harness: {analysis['plan']}: {anchor.text if anchor else 'unanchored'}")
    for text in said["threats"] if Exit.DEVIATED in codes else []:
        note(f"harness: {text}")
    return worst([one for one in codes if one != Exit.DONE])


def _anchor(project: Project, study: str, plan: str, args: argparse.Namespace) -> Standing | None:
    asked = wanted(args)
    if not asked.any or not project.ledger(study).is_dir():
        return None
    return standings(project, study, asked).get(plan)


def _check(project: Project, paths: RunPaths, said: Json) -> None:
    from harness.cli.conclude import report_inputs
    from harness.report.check import check

    plan_json, more = report_inputs(project, paths)
    difference = check(paths.report, said, plan_json, **more)
    if difference is not None:
        raise ChangedError(f"{project.relative(paths.report)}/{difference.sentence}")
    note(f"{project.relative(paths.report)}: what the records give")
