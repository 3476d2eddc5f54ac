from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from harness.report import tables
from harness.report.check import html_cells
from harness.report.ledger_report import render_ledger_report, write_ledger_report
from harness.report.ledger_view import calibration, judged, record_digest
from tests.report import example


@pytest.fixture(scope="module")
def ledger() -> dict[str, bytes]:
    return render_ledger_report("raven", example.ledger_records(), example.ledger_analyses())


@pytest.fixture(scope="module")
def cells(ledger: dict[str, bytes]) -> dict[str, str]:
    return html_cells(ledger["ledger.html"].decode())


def test_the_tally_counts_registered_predictions_only(cells: dict[str, str]) -> None:
    words = ("held", "failed", "inconclusive", "void", "controls caught")
    assert [cells[f"totals.{word}"] for word in words] == ["1", "1", "1", "1", "1 of 1"]


def test_every_lock_counts_as_an_attempt(cells: dict[str, str]) -> None:
    assert cells["question1.confirm_raven_a.attempt"] == "attempt 1 of 2"
    assert cells["question1.confirm_raven_a.state"] == "0001-aaaaaaaaaaaa, abandoned"
    assert cells["question1.confirm_raven.attempt"] == "attempt 2 of 2"
    assert cells["question2.sensitivity.state"] == "never run"
    assert cells["summary"] == "2 questions, 3 locks; never run: sensitivity."


def test_replications_stand_apart(cells: dict[str, str], ledger: dict[str, bytes]) -> None:
    apart = {name.split(".")[2] for name in cells if name.startswith("replications.")}
    assert apart == {"0002-6f5e4d3c2b1a"}
    assert "change no registered verdict" in ledger["ledger.html"].decode()


def test_calibration_sets_void_apart() -> None:
    found = judged(example.ledger_records(), example.ledger_analyses())
    brier = (0.1**2 + 0.8**2 + 0.7**2) / 3
    assert f"Brier score {brier:.3f} over 3 predictions" in calibration(found)
    assert "1 void set apart" in calibration(found)
    assert "not estimable" in calibration([])


def test_the_head_is_the_last_record(cells: dict[str, str]) -> None:
    records = example.ledger_records()
    assert cells["scope.Records"] == str(len(records))
    assert cells["scope.Head, SHA-256"] == record_digest(records[-1])
    assert cells["scope.Anchor"] == "unanchored"
    times = [name for name in cells if re.fullmatch(r"timeline\.\d+\.n", name)]
    assert [cells[name] for name in times] == [str(n) for n in range(1, len(records) + 1)]


def test_an_empty_ledger_is_a_page_too(tmp_path: Path) -> None:
    paths = write_ledger_report("raven", [], {}, tmp_path)
    assert [path.name for path in paths] == ["ledger.html", "ledger.md", "ledger.tex"]
    assert "The ledger is empty." in paths[0].read_text()


def test_same_input_same_bytes(ledger: dict[str, bytes]) -> None:
    again = render_ledger_report("raven", example.ledger_records(), example.ledger_analyses())
    assert again == ledger


def test_hostile_study_and_reason_stay_text() -> None:
    records = example.ledger_records()
    records[2]["body"]["reason"] = "<script>x</script> | 5% \\end{tabular}"
    files = render_ledger_report("<b>$x_1$</b>", records, {})
    assert (
        "<script" not in files["ledger.html"].decode() and "<b>" not in files["ledger.md"].decode()
    )
    assert r"5\% \textbackslash{}end\{tabular\}" in files["ledger.tex"].decode()
    assert r"\| 5%" in files["ledger.md"].decode()


def test_verdicts_without_an_analysis_are_still_listed() -> None:
    found = judged(example.ledger_records(), {})
    assert [item.verdict.word for item in found if item.is_registered] == [
        "held",
        "inconclusive",
        "failed",
        "void",
        "failed",
    ]


def test_plain_table_is_aligned() -> None:
    lines = tables.verdict_text(example.analysis(), example.plan()).splitlines()
    starts = {
        line.index(name)
        for line, name in zip(lines[2:], ("P1", "P2", "P3", "P4", "C1"), strict=True)
    }
    assert len(starts) == 1
    assert not any("\x1b" in line for line in lines)


def test_plain_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    assert tables.is_plain(stream)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not tables.is_plain(stream)
    monkeypatch.setenv("NO_COLOR", "1")
    assert tables.is_plain(stream)


def test_rich_tables_read_no_markup() -> None:
    from rich.console import Console

    analysis = example.analysis()
    analysis["verdicts"][0]["claim"] = "[bold]x[/bold] \x1b[2J"
    stream = io.StringIO()
    Console(file=stream, width=220, force_terminal=False).print(tables.verdict_table(analysis))
    assert "[bold]x[/bold]" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()
    table = tables.ledger_table(example.ledger_records(), example.ledger_analyses())
    assert table.row_count == 5


def test_digests_are_those_of_the_chain(tmp_path: Path) -> None:
    from harness.ledger.chain import Chain
    from harness.store.files import read_json

    chain = Chain(tmp_path / "ledger")
    body = {"plan": "x", "reason": "none"}
    chain.append("plan.amended", body)
    assert record_digest(read_json(chain.path(1))) == chain.head.digest
