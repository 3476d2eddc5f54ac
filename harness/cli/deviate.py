"""`harness deviate`: record that a run departed from its plan, or that it is given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.output import console
from harness.cli.parsing import parser, utf8
from harness.store.errors import Exit, IncompleteError

if TYPE_CHECKING:
    from harness.store.paths import Project


def main(argv: Sequence[str]) -> int:
    """Append the record; the run's verdicts carry it from then on."""
    made = parser("deviate", "record that a run departed from its plan")
    made.add_argument("run", metavar="RUN", help="a plan (its registered run), PLAN@N or a folder")
    made.add_argument(
        "--reason", type=utf8, required=True, help="shown with every verdict of the run"
    )
    made.add_argument(
        "--abandon", action="store_true", help="give the run up; its predictions are void for ever"
    )
    args = made.parse_args(argv)
    from harness.prereg.amend import deviate
    from harness.prereg.amendments import SEEN
    from harness.store.paths import find_project

    project = find_project()
    refuse_broken(project)
    plan, run_id = run_name(project, args.run)
    body = deviate(project, plan, run_id, args.reason, abandon=args.abandon)
    out = console()
    if args.abandon:
        out.print(f"{plan}: {run_id} is abandoned; its predictions are void", markup=False)
        return Exit.VOID
    access = getattr(body, "access", "results_opened")
    out.print(f"{plan}: {run_id} deviates, recorded after {SEEN[access]}", markup=False)
    return Exit.DEVIATED


def refuse_broken(project: Project) -> None:
    """Refuse to append to any ledger of a project in which one is broken.

    Raises:
        RefusedError: naming the record.
    """
    from harness.ledger.chain import Chain
    from harness.prereg.verify import studies

    for study in studies(project):
        Chain(project.ledger(study)).intact()


def run_name(project: Project, name: str) -> tuple[str, str]:
    """Return plan and run id of RUN, also where the registered run's folder is lost.

    Raises:
        IncompleteError: no such run.
    """
    from harness.cli.runs import find_run
    from harness.ledger.chain import Chain
    from harness.ledger.records import history
    from harness.prereg.verify import studies

    try:
        root = find_run(project, name).root.resolve()
    except IncompleteError:
        plan = name.removeprefix("conf=")
        for study in studies(project):
            start = history(Chain(project.ledger(study))).registered(plan)
            if start is not None:
                return plan, start[1].run_id
        raise
    return root.parent.name, root.name
