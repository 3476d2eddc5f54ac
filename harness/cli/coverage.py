"""`harness coverage`: do the intervals cover as often as they say, where the truth is known?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import UsageError, VoidError

if TYPE_CHECKING:
    from rich.table import Table

    from harness.analysis import CoverageCell


def main(argv: Sequence[str]) -> int:
    """Print every cell with what was claimed and seen; exit 9 if one is outside its claim."""
    made = parser(
        "coverage", "simulate data with a known truth and count covered truths", json=True
    )
    made.add_argument(
        "--data-sets", type=int, default=4_000, metavar="N", help="per cell (default 4000)"
    )
    args = made.parse_args(argv)
    from harness.analysis import AnalysisError, coverage_check

    try:
        cells = coverage_check(data_sets=args.data_sets)
    except AnalysisError as error:
        raise UsageError(f"coverage: {error}") from error
    if args.json:
        print_json([{**asdict(cell), "ok": cell.ok} for cell in cells])
    else:
        console().print(_table(cells))
    outside = [cell for cell in cells if not cell.ok]
    if outside:
        raise VoidError(f"coverage: {len(outside)} of {len(cells)} cells: {outside[0].sentence}")
    note(f"all {len(cells)} cells are as claimed")
    return 0


def _table(cells: Sequence[CoverageCell]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Data", "Clusters", "Method", "Seen", "Claimed", ""):
        table.add_column(name, justify="right" if name in ("Clusters", "Seen") else "left")
    for cell in cells:
        claimed = f"{cell.low:.0%} to {cell.high:.0%}"
        word = Text("as claimed") if cell.ok else Text("NOT as claimed", "bold red")
        row = (cell.name, str(cell.clusters), cell.method, f"{cell.share:.1%}", claimed)
        table.add_row(*map(Text, row), word)
    return table
