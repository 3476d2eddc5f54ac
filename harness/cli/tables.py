"""`harness analyze --table FILE --plan FILE`: verdicts on any table of paired records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cli.output import console, note, print_json


def analyze_table(table: Path, plan: Path, *, as_json: bool) -> int:
    """Print verdicts on a table; nothing is written, and nothing of it was preregistered."""
    from harness.measure.table import evaluate_table
    from harness.measure.table_plan import read_table_plan
    from harness.measure.table_source import open_table

    typed = read_table_plan(plan)
    analysis = evaluate_table(open_table(table), typed)
    if as_json:
        print_json(analysis)
    else:
        _show(analysis)
    return 0


def _show(analysis: dict[str, Any]) -> None:
    from rich.text import Text

    from harness.measure.table import notes_of
    from harness.report.escape import one_line
    from harness.report.tables import verdict_table

    screen = console()
    title = f"{analysis['title']}: {analysis['table']['rows']} rows, {analysis['role']}"
    screen.print(Text(one_line(title), "bold"))
    screen.print(verdict_table(analysis))
    for verdict in analysis["verdicts"]:
        for line in notes_of(verdict):
            screen.print(Text(one_line(f"{verdict['id']}: {line}")))
    note("not preregistered: nothing was frozen before these data were seen")
