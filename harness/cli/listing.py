"""`harness list`: every plan with its stage, lock, runs and last verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.cli.output import console, print_json
from harness.cli.parsing import parser


def main(argv: Sequence[str]) -> int:
    """Print the table; plans that don't compose are shown with their error."""
    made = parser("list", "plans, stage, frozen or not, runs, last verdict", json=True)
    args = made.parse_args(argv)
    rows = _rows()
    if args.json:
        print_json(rows)
        return 0
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("plan", "stage", "frozen", "runs", "last verdicts", "title"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            *(str(row[key]) for key in ("plan", "stage", "frozen", "runs", "verdicts")),
            row["title"],
        )
    console().print(table)
    return 0


def _rows() -> list[dict[str, Any]]:
    from harness.plan.compose import compose, plan_names
    from harness.store.errors import UsageError
    from harness.store.paths import find_project

    project = find_project()
    rows: list[dict[str, Any]] = []
    for name in plan_names(project):
        try:
            plan = compose(project, name).plan
        except UsageError as error:
            rows.append(
                {
                    "plan": name,
                    "stage": "broken",
                    "frozen": "",
                    "runs": "",
                    "verdicts": "",
                    "title": str(error),
                }
            )
            continue
        runs = sorted(path.name for path in project.runs(name).glob("*-*"))
        frozen = "yes" if project.lock(name).is_file() else "no"
        rows.append(
            {
                "plan": name,
                "stage": plan.stage,
                "frozen": frozen,
                "runs": len(runs),
                "verdicts": _verdicts(project, plan.study, name),
                "title": plan.title,
            }
        )
    return rows


def _verdicts(project: Any, study: str, plan: str) -> str:
    from harness.ledger.chain import Chain

    folder = project.ledger(study)
    if not folder.is_dir():
        return ""
    records = [
        r for r in Chain(folder).records() if r.kind == "verdicts" and r.body["plan"] == plan
    ]
    if not records:
        return ""
    words = [verdict["word"] for verdict in records[-1].body["verdicts"]]
    return ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
