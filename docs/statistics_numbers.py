"""Writes the numbers of docs/statistics.md and benchmarks/bootstrap/README.md between their marks.

    python docs/statistics_numbers.py [--check]

Coverage is computed anew (seconds). Times and memory come from the JSON files that the programs in
benchmarks/bootstrap wrote. `--check` changes nothing and fails where a page says something else.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.analysis import CoverageCell, coverage_check

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "statistics.md"
BENCHMARK = ROOT / "benchmarks" / "bootstrap"
PAGES = (PAGE, BENCHMARK / "README.md")
RESAMPLES = 10_000


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: int) -> str:
    """Return a Markdown table whose columns from `right` on are aligned to the right."""
    rule = [("---" if place < right else "--:") for place in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def coverage(cells: Sequence[CoverageCell]) -> str:
    rows = [
        (cell.name, cell.method, str(cell.clusters), f"{cell.share:.1%}",
         f"{cell.low:.0%}–{cell.high:.0%}", "" if cell.ok else "**outside**")
        for cell in cells
    ]  # fmt: skip
    held = sum(cell.ok for cell in cells)
    head = ("data", "method", "clusters", "seen", "claimed", "")
    note = (
        f"{held} of {len(cells)} cells as claimed; {cells[0].data_sets:,} data sets per CR2 cell."
    )
    return f"{table(head, rows, 2)}\n\n{note}"


def speed(timings: Sequence[dict[str, Any]]) -> str:
    least = sum(one["cpu_s"] for one in timings if one["name"].startswith("floor"))
    ready = next(one["cpu_s"] for one in timings if one["name"] == "ours: ready cluster sums")
    whole = next(one["cpu_s"] for one in timings if one["name"] == "ours: floats by column")
    rows, notes = [], []
    for one in timings:
        name, cpu = one["name"], one["cpu_s"]
        mark = "" if one["scaled_from"] == RESAMPLES else f" (from {one['scaled_from']} replicates)"
        rows.append((name + mark, f"{cpu:.3g}", f"{cpu / least:.3g}"))
        if not name.startswith(("ours", "floor")):
            beside, unit = (whole, "floats") if name.startswith("pandas") else (ready, "ready sums")
            notes.append(f"{name.split()[0]} {cpu / beside:,.3g}× our {unit}")
    rows.append(("**floor, together**", f"{least:.3g}", "1"))
    return f"{table(('method', 'CPU s', '/ floor'), rows, 1)}\n\nRatios: {'; '.join(notes)}."


def growth(found: dict[str, Any]) -> str:
    rows = []
    for name, points in found["seconds"].items():
        (small, fast), (large, slow) = points[0], points[-1]
        rows.append((name, f"{small:,} → {large:,}", f"{large / small:,.0f}×",
                     f"{fast:.3f} → {slow:.3f}", f"{slow / fast:.1f}×"))  # fmt: skip
    return table(("what grows", "from, to", "size", "CPU s", "time"), rows, 1)


def memory(found: Sequence[dict[str, float]]) -> str:
    rows = [
        (f"{one['rows']:,.0f}", f"{one['file_mb']:,.0f}", f"{one['peak_mb']:,.0f}",
         f"{one['whole_mb']:,.0f}", f"{one['cpu_s']:.1f}")
        for one in found
    ]  # fmt: skip
    first, last = found[0], found[-1]
    each = 1e6 * (last["peak_mb"] - first["peak_mb"]) / (last["rows"] - first["rows"])
    head = ("rows", "file, MB", "memory here, MB", "read whole by pandas, MB", "CPU s")
    return f"{table(head, rows, 0)}\n\nThat is {each:.0f} bytes per row, of which 8 are its hash."


def regions(cells: Sequence[CoverageCell]) -> dict[str, str]:
    """Return every region by name."""

    def read(name: str) -> Any:
        return json.loads((BENCHMARK / name).read_text(encoding="utf-8"))

    return {
        "coverage": coverage(cells),
        "speed": speed(read("peers.json")),
        "growth": growth(read("growth.json")),
        "memory": memory(read("memory.json")),
    }


def rewritten(text: str, found: dict[str, str]) -> str:
    """Return a page with its regions replaced."""

    def put(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- numbers:{name} -->\n\n{found[name]}\n\n<!-- /numbers:{name} -->"

    return re.sub(r"<!-- numbers:(\w+) -->.*?<!-- /numbers:\1 -->", put, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    found, stale = regions(coverage_check()), []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = rewritten(text, found)
        if new != text:
            stale.append(page.relative_to(ROOT))
            if not chosen.check:
                page.write_text(new, encoding="utf-8")
    for page in stale:
        print(f"{page}: {'says other numbers' if chosen.check else 'rewritten'}")
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
