"""`harness ledger show / report`: every lock, run and verdict of a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import IncompleteError

if TYPE_CHECKING:
    from harness.store.paths import Project

Analyses = dict[tuple[str, str], dict[str, Any]]


def main(argv: Sequence[str]) -> int:
    """Show a ledger in the terminal, or write its pages."""
    made = parser("ledger", "show a study's ledger, or write it as a report", json=True)
    made.add_argument("action", choices=["show", "report"])
    made.add_argument("study", nargs="?", help="default: every study of the project")
    args = made.parse_args(argv)
    from harness.prereg.verify import studies
    from harness.store.paths import find_project

    project = find_project()
    names = [args.study] if args.study else studies(project)
    if not names:
        raise IncompleteError("ledgers: no study yet; `harness freeze` starts one")
    for name in names:
        if args.action == "show":
            _show(project, name, as_json=args.json)
        else:
            _report(project, name)
    return 0


def _load(project: Project, study: str) -> tuple[list[dict[str, Any]], Analyses]:
    """Return a study's verified records, and the analyses of its runs and their replications."""
    from harness.ledger.chain import Chain
    from harness.run.folder import run_folders
    from harness.store.files import read_json

    chain = Chain(project.ledger(study))
    records = [read_json(chain.path(record.n)) for record in chain.verify()]
    if not records:
        raise IncompleteError(f"ledgers/{study}: no such ledger")
    plans = {str(body["plan"]) for record in records if isinstance(body := record["body"], dict)}
    analyses: Analyses = {}
    for plan in sorted(plans):
        for run in run_folders(project, plan):
            if run.analysis.exists():
                analyses[plan, run.root.name] = read_json(run.analysis)
    return records, analyses


def _show(project: Project, study: str, *, as_json: bool) -> None:
    from harness.report.tables import ledger_table

    records, analyses = _load(project, study)
    if as_json:
        print_json(records)
        return
    console().print(f"ledger {study}: {len(records)} records, unanchored")
    console().print(ledger_table(records, analyses))


def _report(project: Project, study: str) -> None:
    from harness.report.ledger_report import write_ledger_report

    records, analyses = _load(project, study)
    for path in write_ledger_report(study, records, analyses, project.reports / study):
        note(project.relative(path))
