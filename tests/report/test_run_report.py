from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.report.check import html_cells
from harness.report.run_report import render_run_report, write_run_report
from harness.report.verdicts import outcome, verdicts
from tests.report import example
from tests.report.conftest import render

TEXTS = ("report.html", "report.md", "report.tex", "numbers.json", "numbers.tex")


def test_same_input_same_bytes(files: dict[str, bytes]) -> None:
    assert render() == files


def test_every_file_is_written(tmp_path: Path, files: dict[str, bytes]) -> None:
    paths = write_run_report(example.analysis(), example.plan(), tmp_path / "report")
    assert {path.name for path in paths} == set(files)
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)


def test_outcome_is_computed_from_words(page: str) -> None:
    assert html_cells(page)["outcome"] == (
        "The primary prediction P1 held; of 4 predictions, 1 held, 1 failed, 1 is inconclusive "
        "and 1 is void; the control failed, as it must."
    )


def test_failed_predictions_are_as_large_as_the_others(page: str) -> None:
    rows = re.findall(r'<td class="wide" [^>]*data-cell="verdicts\.(\w+)\.claim">', page)
    assert rows == ["P1", "P2", "P3", "P4", "C1"]
    looks = re.findall(r'<td class="tone-(\w+) word"', page)
    assert looks == ["held", "inconclusive", "failed", "void", "failed"]
    css = page[page.index("<style>") : page.index("</style>")]
    for line in css.splitlines():
        if any(f"tone-{word}" in line for word in looks):
            assert not re.search(r"font|size|opacity|display", line)


def test_a_control_that_is_not_caught_is_said_first_thing() -> None:
    analysis = example.analysis()
    analysis["verdicts"][-1]["word"] = "held"
    sentence = outcome(verdicts(analysis, example.plan()))
    assert "the control C1 was not caught" in sentence


@pytest.mark.parametrize("code", [3, 4, 5, 6, 7])
def test_no_success_beside_codes_three_to_seven(code: int) -> None:
    analysis = {**example.analysis(), "exit_code": code, "series": {}, "cost_model": {}, "arms": {}}
    text = render_run_report(analysis, example.plan())["report.html"].decode()
    assert f"(code {code}): the verdicts below are reported, not to be relied on." in text
    assert "success" not in text.lower()


def test_scope_names_what_the_verdicts_are_about(page: str) -> None:
    cells = html_cells(page)
    assert cells["scope.Attempt"] == "attempt 1 of 2"
    assert cells["scope.Anchor"] == "unanchored"
    assert cells["scope.Run"] == "registered run"


def test_the_page_needs_nothing_else(page: str) -> None:
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "@import" not in page and "url(http" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    figures = [name for name in ids if name.startswith("figure-")]
    assert len(figures) == 8
    assert page.count('<svg role="img"') == 8
    assert page.count('class="strip ') == 4


def test_ids_are_unique_but_for_shared_markers(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page)
    doubled = {name for name in ids if ids.count(name) > 1}
    assert not doubled


def test_drawings_follow_the_page_into_the_dark(page: str) -> None:
    drawings = re.findall(r'<div class="canvas">.*?</div>', page, re.DOTALL)
    for drawing in drawings:
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) == set()


def test_figure_files_are_svg_and_pdf_without_a_date(files: dict[str, bytes]) -> None:
    for name, data in files.items():
        if name.endswith(".svg"):
            ElementTree.fromstring(data)
            assert b"<dc:date>" not in data
        if name.endswith(".pdf"):
            assert data.startswith(b"%PDF") and b"CreationDate" not in data


def test_numbers_have_value_unit_and_text(files: dict[str, bytes]) -> None:
    found = json.loads(files["numbers.json"])["numbers"]
    assert found["P3.estimate"] == {"value": 0.8675, "unit": "share", "text": "86.8\u202f%"}
    assert found["P4.estimate"]["value"] is None
    assert found["patched.cache"]["text"] == "320\u202fKiB"
    commands = files["numbers.tex"].decode()
    assert r"\newcommand{\ConfirmRavenPThreeEstimate}{86.8\,\%}" in commands
    names = re.findall(r"\\newcommand\{\\([^}]*)\}", commands)
    assert len(names) == len(set(names)) == len(found)
    assert all(name.isalpha() for name in names)


def test_latex_and_markdown_hold_every_prediction(files: dict[str, bytes]) -> None:
    for name in ("report.md", "report.tex"):
        text = files[name].decode()
        for prediction in ("P1:", "P2:", "P3:", "P4:", "C1:"):
            assert prediction in text
    assert r"\toprule" in files["report.tex"].decode()


def test_markdown_tables_are_rectangular(files: dict[str, bytes]) -> None:
    blocks = re.findall(r"(?:^\|.*\n)+", files["report.md"].decode(), re.MULTILINE)
    assert len(blocks) == 7
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1


def test_selection_shows_candidates_and_reasons(page: str) -> None:
    cells = html_cells(page)
    assert cells["selection.window_0.admissible"] == "no: token_match 0.9841 is below 0.999"
    assert cells["selection.window_4.arm"] == "window_4 chosen"
    assert cells["selection.rule"].startswith("Rule: maximize tokens_per_second subject to")


def test_threats_name_what_the_figures_say(page: str) -> None:
    assert "P4 rests on 34 clusters, fewer than the 40 that the plan asks for." in page
    assert "First-run effect: 0.0312 [0.0081, 0.0543] in the log ratio, zero is outside" in page


def test_hostile_text_stays_text() -> None:
    files = render_run_report(example.hostile(), example.plan(), lock=example.lock())
    page, md, tex = (files[f"report.{kind}"].decode() for kind in ("html", "md", "tex"))
    for text in (page, md, files["figure_phases.svg"].decode()):
        assert "<script" not in text
        assert "\x1b" not in text
    assert "<script" not in tex and "\\input{x}" not in tex
    assert r"\$b\%c\_\allowbreak{}d" in tex
    assert all(len(line) < 4000 for line in md.splitlines())
    assert r"\[l\](http" in md


def _sparse() -> dict[str, Any]:
    verdict = {"id": "P1", "word": "void", "estimate": float("nan"), "clusters": None}
    return {
        "plan": "x",
        "arms": {"pristine": {"role": "pristine", "tokens": 0, "decode_seconds": float("inf")}},
        "verdicts": [verdict, {"id": "P2", "word": "surely", "estimate": 1.0, "low": 0.9}],
        "aa": {"estimate": None, "reason": "no block was scored", "delta": 0.1},
        "series": {"pair": [{"block": 0, "log_ratio_cpu": 0.1}, {"block": 1}]},
        "cost_model": {"per_pass_us": None},
        "order": {"drift": 0.01},
        "near_ties": {"counted": None},
    }


@pytest.mark.parametrize("analysis", [{}, {"plan": "x"}, _sparse()], ids=["none", "name", "gaps"])
def test_what_is_missing_says_so(analysis: dict[str, Any]) -> None:
    files = render_run_report(analysis, {})
    for name in TEXTS:
        text = files[name].decode()
        assert not re.search(r"\b(nan|NaN|None|inf|Infinity|undefined)\b", text), name
    cells = html_cells(files["report.html"].decode())
    assert all(text.strip() for name, text in cells.items() if not name.endswith(".drawing"))
    assert "nothing was frozen before this run" in files["report.html"].decode()


def test_an_unknown_word_is_void_not_held() -> None:
    assert [verdict.word for verdict in verdicts(_sparse())] == ["void", "void"]


def test_the_regime_is_stated_beside_the_cost_model(page: str) -> None:
    assert "paid once, whatever its number of tokens; a pass of 5 tokens costs" in page
    assert html_cells(page)["costs.per_token_loop_us.value"] == "9.70 µs"


def test_near_ties_are_a_sentence(page: str) -> None:
    assert "17 divergences from pristine fall where the two likeliest tokens lie within" in page
