"""Tables for a terminal: drawn by rich where there is one, aligned plain text where not."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from harness.report.escape import one_line
from harness.report.grid import Cell, Grid
from harness.report.ledger_view import Analyses, ledger_grid
from harness.report.verdicts import verdict_grid, verdicts
from harness.store.canonical import Json

if TYPE_CHECKING:
    from rich.table import Table

_TONES = {"held": "bold blue", "failed": "bold red", "inconclusive": "bold yellow", "void": "bold"}
_GAP = "  "
_PAGE_ONLY = frozenset({"method"})
_HEADS = {"confidence": "P(held)", "estimate": "Estimate"}


def verdict_table(analysis: Json, plan_json: Json | None = None) -> Table:
    """Return every prediction with its verdict, for a rich console."""
    return grid_table(verdict_grid(verdicts(analysis, plan_json)))


def verdict_text(analysis: Json, plan_json: Json | None = None) -> str:
    """Return every prediction with its verdict as aligned plain text."""
    return grid_text(verdict_grid(verdicts(analysis, plan_json)))


def ledger_table(records: Sequence[Json], analyses: Analyses) -> Table:
    """Return every judged prediction of a study, for a rich console."""
    return grid_table(ledger_grid(records, analyses))


def ledger_text(records: Sequence[Json], analyses: Analyses) -> str:
    """Return every judged prediction of a study as aligned plain text."""
    return grid_text(ledger_grid(records, analyses))


def grid_table(grid: Grid) -> Table:
    """Return a grid for a rich console; text is never read as markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=None)
    shown = [place for place, one in enumerate(grid.written.columns) if one.key not in _PAGE_ONLY]
    for place in shown:
        column = grid.written.columns[place]
        table.add_column(
            Text(_HEADS.get(column.key, column.title)),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.wide,
        )
    for row in grid.written.rows:
        cells = [row.cells[place] for place in shown]
        table.add_row(*(Text(_two_lines(cell), _TONES.get(cell.tone, "")) for cell in cells))
    return table


def _two_lines(cell: Cell) -> str:
    """Text over note, so that a table fits a terminal."""
    return "\n".join(one_line(part) for part in (cell.text, cell.note) if part)


def grid_text(grid: Grid) -> str:
    """Return a grid as plain text in columns, whatever the width of its characters."""
    from rich.cells import cell_len

    head = [column.title for column in grid.written.columns]
    lines = [head, *([_line(cell) for cell in row.cells] for row in grid.written.rows)]
    widths = [max(cell_len(line[index]) for line in lines) for index in range(len(head))]
    rights = [column.right for column in grid.written.columns]

    def padded(line: list[str]) -> str:
        cells = (
            " " * (width - cell_len(text)) + text
            if right
            else text + " " * (width - cell_len(text))
            for text, width, right in zip(line, widths, rights, strict=True)
        )
        return _GAP.join(cells).rstrip()

    rule = _GAP.join("-" * width for width in widths)
    return "\n".join([padded(lines[0]), rule, *(padded(line) for line in lines[1:])]) + "\n"


def _line(cell: Cell) -> str:
    return one_line(cell.line)


def is_plain(stream: IO[str]) -> bool:
    """Whether output there should be plain: `NO_COLOR` is set or nobody watches a terminal."""
    return bool(os.environ.get("NO_COLOR")) or not stream.isatty()


def print_grid(grid: Grid, stream: IO[str] | None = None) -> None:
    """Print a grid as the stream can take it."""
    target = sys.stdout if stream is None else stream
    if is_plain(target):
        target.write(grid_text(grid))
        return
    from rich.console import Console

    Console(file=target).print(grid_table(grid))
