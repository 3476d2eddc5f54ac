from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.check import compare
from harness.report.render import written


@pytest.fixture
def out(tmp_path: Path, files: dict[str, bytes]) -> Path:
    written(files, tmp_path)
    return tmp_path


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_an_untouched_report_is_what_its_records_say(out: Path, files: dict[str, bytes]) -> None:
    assert compare(out, files) is None


def test_a_hand_edited_number_is_named(out: Path, files: dict[str, bytes]) -> None:
    _edit(out / "report.html", ">86.8\u202f%<", ">96.8\u202f%<")
    found = compare(out, files)
    assert found is not None
    assert (found.file, found.cell) == ("report.html", "verdicts.P3.estimate")
    assert "found '96.8\\u202f% [85.7, 87.8]'" in found.sentence


@pytest.mark.parametrize(
    ("name", "old", "new", "cell"),
    [
        ("report.md", "86.8", "96.8", "row failed, column 3"),
        ("report.tex", "2.28", "3.28", "row held, column 3"),
        ("numbers.json", '"value":0.8675', '"value":0.9675', "numbers.P3.estimate.value"),
        ("numbers.tex", "86.8", "96.8", "line"),
        ("report.html", "Threats to validity", "Strengths", "line"),
        ("figure_forest.svg", "86.8", "96.8", "line"),
    ],
)
def test_every_format_is_checked(
    out: Path, files: dict[str, bytes], name: str, old: str, new: str, cell: str
) -> None:
    _edit(out / name, old, new)
    found = compare(out, files)
    assert found is not None
    assert found.file == name
    assert cell in found.cell


def test_a_missing_file_is_named(out: Path, files: dict[str, bytes]) -> None:
    (out / "figure_costs.pdf").unlink()
    found = compare(out, files)
    assert found is not None and found.file == "figure_costs.pdf" and found.found == "nothing"


def test_another_drawing_library_is_no_forgery(out: Path, files: dict[str, bytes]) -> None:
    for path in out.glob("*.svg"):
        path.write_text(path.read_text().replace("Matplotlib v", "Matplotlib v0."))
    page = out / "report.html"
    page.write_text(page.read_text().replace("stroke-width: 0.8", "stroke-width: 0.80"))
    assert compare(out, files) is None
    _edit(page, "2.28×", "3.28×")
    assert compare(out, files) is not None
