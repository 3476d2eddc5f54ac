"""`harness ledger`: show, report, export and anchor a study's ledger; adopt a replication."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.anchor import add_options, standings, wanted
from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser, utf8
from harness.store.errors import IncompleteError, UsageError

if TYPE_CHECKING:
    from harness.store.paths import Project

Analyses = dict[tuple[str, str], dict[str, Any]]


def main(argv: Sequence[str]) -> int:
    """Do one thing with one ledger, or show every ledger of the project."""
    made = parser("ledger", "show, report, export, anchor a ledger; adopt a replication", json=True)
    made.add_argument("action", choices=sorted(_ACTIONS))
    made.add_argument("study", nargs="?", help="default: every study; for adopt: RUN")
    made.add_argument("--output", metavar="FILE", help="export: a file instead of the terminal")
    made.add_argument("--save", metavar="FILE", help="anchor: write the head to keep elsewhere")
    made.add_argument("--sign", metavar="KEY", help="anchor: sign the head with an ssh key")
    made.add_argument("--reason", type=utf8, help="repair: why")
    add_options(made)
    args = made.parse_args(argv)
    from harness.prereg.verify import studies
    from harness.store.paths import find_project

    project = find_project()
    if args.action == "adopt":
        return _adopt(project, args)
    names = [args.study] if args.study else studies(project)
    if not names:
        raise IncompleteError("ledgers: no study yet; `harness freeze` starts one")
    if args.action not in ("show", "report") and len(names) > 1:
        raise UsageError(f"{args.action}: name one study of {', '.join(names)}")
    return max(_ACTIONS[args.action](project, name, args) for name in names)


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
    for plan in sorted(plans - {"*"}):
        for run in run_folders(project, plan):
            if run.analysis.exists():
                analyses[plan, run.root.name] = read_json(run.analysis)
    return records, analyses


def _anchored(project: Project, study: str, args: argparse.Namespace) -> str:
    asked = wanted(args)
    if not asked.any:
        return "unanchored"
    found = standings(project, study, asked)
    return "; ".join(f"{plan}: {one.text}" for plan, one in found.items())


def _show(project: Project, study: str, args: argparse.Namespace) -> int:
    from harness.report.ledger_view import questions
    from harness.report.tables import grid_table, ledger_table

    records, analyses = _load(project, study)
    if args.json:
        print_json(records)
        return 0
    out = console()
    out.print(
        f"ledger {study}: {len(records)} records, {_anchored(project, study, args)}", markup=False
    )
    out.print(ledger_table(records, analyses))
    for question, grid in questions(records, analyses):
        out.print(f"every lock on {question}", markup=False)
        out.print(grid_table(grid))
    return 0


def _report(project: Project, study: str, args: argparse.Namespace) -> int:
    from harness.report.ledger_report import write_ledger_report

    records, analyses = _load(project, study)
    asked = wanted(args)
    found = standings(project, study, asked) if asked.any else {}
    whole = bool(found) and all(one.anchored for one in found.values())
    said = "; ".join(one.text.removeprefix("anchored by ") for one in found.values())
    out = project.reports / study
    files = write_ledger_report(study, records, analyses, out, anchored=said if whole else False)
    for path in files:
        note(project.relative(path))
    return 0


def _export(project: Project, study: str, args: argparse.Namespace) -> int:
    """One line per record, in its very bytes: a line's SHA-256 is the next one's prev."""
    from harness.ledger.chain import Chain
    from harness.store.files import read, replace

    chain = Chain(project.ledger(study))
    lines = [read(chain.path(record.n)) for record in chain.verify()]
    if not lines:
        raise IncompleteError(f"ledgers/{study}: no such ledger")
    if args.output:
        replace(Path(args.output), b"".join(lines))
        return 0
    sys.stdout.write(b"".join(lines).decode("utf-8"))
    return 0


def _anchor(project: Project, study: str, args: argparse.Namespace) -> int:
    from harness.cli import anchor

    return anchor.main(project, study, args)


def _repair(project: Project, study: str, args: argparse.Namespace) -> int:
    from harness.ledger.chain import Chain
    from harness.ledger.repair import repair
    from harness.prereg.amend import checked_reason

    aside = repair(Chain(project.ledger(study)), checked_reason(args.reason or ""))
    console().print(f"set aside: {project.relative(aside)}; the ledger says so", markup=False)
    return 0


def _adopt(project: Project, args: argparse.Namespace) -> int:
    from harness.cli.deviate import refuse_broken, run_name
    from harness.prereg.adopt import adopt

    if not args.study:
        raise UsageError("adopt: name the run, a PLAN@N or its folder")
    refuse_broken(project)
    plan, run_id = run_name(project, args.study)
    body = adopt(project, plan, run_id)
    text = f"adopted {plan} {run_id}: {body.chain_count} records of its own chain"
    console().print(f"{text}; the registered verdicts stay", markup=False)
    return 0


_ACTIONS: dict[str, Callable[[Project, str, argparse.Namespace], int]] = {
    "show": _show,
    "report": _report,
    "export": _export,
    "anchor": _anchor,
    "repair": _repair,
    "adopt": lambda project, _, args: _adopt(project, args),
}
