"""`harness analyze --table` and `harness coverage` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.analysis import CoverageCell
from harness.cli import coverage
from harness.cli.main import main

PLAN = """
arms: {pristine: before, patched: after}
columns: {item: question, metrics: {seconds: "time (s)"}}
predictions:
  - id: P1
    claim: at least 1.2 times as fast
    estimand: {kind: log_ratio, of: seconds, cluster: item}
    region: [1.2, null]
    family: primary
    confidence: 0.8
    min_clusters: 6
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [
        f"frage {item},{arm},{(1.0 + item / 10) * pace * (1 + item % 3 / 100)}"
        for item in range(12)
        for arm, pace in (("before", 1.5), ("after", 1.0 + item % 2 / 50))
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["question,arm,time (s)", *rows]) + "\n", encoding="utf-8")
    return path


def test_a_table_gets_a_verdict_that_says_it_was_not_preregistered(
    plan: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", "--table", str(table), "--plan", str(plan)]) == 0
    shown = capsys.readouterr()
    assert "not preregistered" in shown.out
    assert "not preregistered" in shown.err
    assert "held" in shown.out
    assert "p = 0.000488 (sign-flip-exact)" in shown.out
    assert "studentised bootstrap" in shown.out


def test_json_is_for_programs(plan: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--table", str(table), "--plan", str(plan), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["role"] == "not preregistered"
    assert found["verdicts"][0]["word"] == "held"
    assert found["verdicts"][0]["registered"] is False


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("none.csv", None, "no such file"),
        ("table.xlsx", b"PK", "expected .csv"),
        ("empty.csv", b"", "cannot be read as a table"),
        ("header.csv", b"question,arm,time (s)\n", "holds no rows"),
        ("ragged.csv", b"question,arm,time (s)\nx,before\n", "cannot be read as a table"),
        ("latin.csv", b"question,arm,time (s)\n\xff,before,1\n", "cannot be read as a table"),
        ("wrong.csv", b"a,b\n1,2\n", "no column 'question' (columns.item)"),
        ("twice.csv", b"question,question,arm,time (s)\n", "two columns are called 'question'"),
        ("broken.parquet", b"PAR1nonsensePAR1", "cannot be read as a table"),
    ],
)
def test_a_broken_file_is_one_line_and_exit_2(
    plan: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    data: bytes | None,
    message: str,
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    assert main(["analyze", "--table", str(tmp_path / name), "--plan", str(plan)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not YAML"),
        ("- 1", "expected a mapping"),
        ("title: a\ntitle: b", "line 2: title appears twice"),
        ("!!python/object/apply:os.system [id]", "not YAML"),
        (PLAN + "level: 0.01", "level: unknown key"),
        (PLAN.replace("log_ratio", "mean_ratio"), "estimand.kind: found 'mean_ratio'"),
        (PLAN.replace("0.8", "'0.8'"), "confidence: found '0.8'"),
        (PLAN.replace("0.8", ".nan"), "canonical"),
        ("? [a, b]\n: 1", "appears twice"),
    ],
)
def test_a_broken_plan_is_one_line_and_exit_2(
    plan: Path, table: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    plan.write_text(text, encoding="utf-8")
    assert main(["analyze", "--table", str(table), "--plan", str(plan)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    "words", [[], ["--table", "t.csv"], ["run", "--table", "t", "--plan", "p"]]
)
def test_a_run_or_a_table_with_its_plan_but_not_both(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", *words]) == 2
    assert capsys.readouterr().err.startswith("harness: analyze:")


def test_coverage_prints_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--data-sets", "500", "--json"]) in (0, 9)
    cells = json.loads(capsys.readouterr().out)
    assert {"name", "clusters", "method", "share", "low", "high", "ok"} <= set(cells[0])
    assert any("block noise" in cell["name"] for cell in cells)


def test_a_cell_outside_its_claim_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = CoverageCell("times", 8, "cr2", 0.95, 0.93, 0.97, 4_000)
    bad = CoverageCell("answers", 8, "wald", 0.60, 0.93, 0.97, 4_000)
    monkeypatch.setattr("harness.analysis.coverage_check", lambda **_: (good, bad))
    assert coverage.main is not None
    assert main(["coverage"]) == 9
    shown = capsys.readouterr()
    assert "NOT as claimed" in shown.out
    assert "1 of 2 cells" in shown.err
    assert main(["coverage", "--data-sets", "3"]) in (2, 9)
