"""Is a report still what its records say? Render it again and name the first cell that differs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.report.canvas import creator
from harness.report.run_report import render_run_report
from harness.store.canonical import Json, parse
from harness.store.errors import IncompleteError
from harness.store.files import read

_SVG = re.compile(r'<div class="canvas">.*?</div>', re.DOTALL)
_ABSENT = "nothing"


@dataclass(frozen=True)
class Difference:
    """The first place where a report is not what its records give."""

    file: str
    cell: str
    found: str
    expected: str

    @property
    def sentence(self) -> str:
        """One line for a person."""
        return (
            f"{self.file}: {self.cell}: found {self.found!r}, the records give {self.expected!r}; "
            "write the report again"
        )


def check(
    out: Path,
    analysis: Json,
    plan_json: Json,
    *,
    model_card: Json | None = None,
    lock: Json | None = None,
    ledger_head: Json | None = None,
) -> Difference | None:
    """Return the first difference between the report in `out` and its records, or None.

    Drawings are compared only where the same version of the drawing library made them.
    """
    expected = render_run_report(
        analysis, plan_json, model_card=model_card, lock=lock, ledger_head=ledger_head
    )
    return compare(out, expected)


def compare(out: Path, expected: Mapping[str, bytes]) -> Difference | None:
    """Return the first difference between files and what they should hold."""
    drawn_alike = _drawn_alike(out, expected)
    for name, wanted in expected.items():
        if name.endswith((".svg", ".pdf")) and not drawn_alike:
            continue
        try:
            found = read(out / name)
        except IncompleteError:
            return Difference(name, "file", _ABSENT, f"{len(wanted)} bytes")
        difference = None if found == wanted else _difference(name, found, wanted, drawn_alike)
        if difference:
            return difference
    return None


def _drawn_alike(out: Path, expected: Mapping[str, bytes]) -> bool:
    for name in (name for name in expected if name.endswith(".svg")):
        path = out / name
        if path.is_file() and creator(path.read_bytes()) != creator(expected[name]):
            return False
    return True


def _difference(name: str, found: bytes, wanted: bytes, drawn_alike: bool) -> Difference | None:
    if name.endswith(".pdf"):
        return Difference(name, "drawing", f"{len(found)} bytes", f"{len(wanted)} other bytes")
    texts = [data.decode("utf-8", "replace") for data in (found, wanted)]
    if name.endswith(".html"):
        return _html(name, texts[0], texts[1], drawn_alike)
    if name.endswith(".json"):
        return _json(name, found, wanted)
    return _lines(name, texts[0], texts[1])


def _html(name: str, found: str, wanted: str, drawn_alike: bool) -> Difference | None:
    here, there = html_cells(found), html_cells(wanted)
    for cell, text in there.items():
        if here.get(cell) != text:
            return Difference(name, cell, here.get(cell, _ABSENT), text)
    if not drawn_alike:
        found, wanted = _SVG.sub("", found), _SVG.sub("", wanted)
    return None if found == wanted else _lines(name, found, wanted)


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: dict[str, str] = {}
        self._open: tuple[str, str] | None = None
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("data-cell")
        if self._open is None and name:
            self._open, self._depth = (name, tag), 0
            self.cells[name] = ""
        if self._open is not None and tag == self._open[1]:
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self._open is not None and tag == self._open[1]:
            self._depth -= 1
            if self._depth == 0:
                self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.cells[self._open[0]] += data


def html_cells(page: str) -> dict[str, str]:
    """Return the text of every named cell of a page."""
    parser = _Cells()
    parser.feed(page)
    return parser.cells


def _json(name: str, found: bytes, wanted: bytes) -> Difference | None:
    try:
        here: Any = parse(found)
    except ValueError as error:
        return Difference(name, "file", f"not JSON: {error}", "canonical JSON")
    here_flat, there_flat = dict(_flat("", here)), dict(_flat("", parse(wanted)))
    for key in (*there_flat, *here_flat):
        pair = here_flat.get(key, _ABSENT), there_flat.get(key, _ABSENT)
        if pair[0] != pair[1]:
            return Difference(name, key, *pair)
    return Difference(name, "layout", "other spacing or order", "canonical JSON")


def _flat(where: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        entries = [_flat(f"{where}.{key}".lstrip("."), value[key]) for key in value]
        return [pair for entry in entries for pair in entry]
    return [(where, str(value))]


def _lines(name: str, found: str, wanted: str) -> Difference | None:
    pairs = zip_longest(found.splitlines(), wanted.splitlines(), fillvalue=_ABSENT)
    for index, (here, there) in enumerate(pairs, 1):
        if here != there:
            return _cell(name, f"line {index}", here, there)
    return Difference(name, "line endings", "other line endings", "line feeds")


def _cell(name: str, line: str, here: str, there: str) -> Difference:
    mark = " | " if name.endswith(".md") else " & "
    left, right = here.split(mark), there.split(mark)
    if len(left) == len(right) > 1:
        for index, (one, other) in enumerate(zip(left, right, strict=True), 1):
            if one != other:
                where = f"{line}, row {right[0].strip(' |')}, column {index}"
                return Difference(name, where, one.strip(), other.strip())
    return Difference(name, line, here.strip(), there.strip())
