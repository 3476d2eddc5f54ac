"""Counters and facts that plugins leave for the worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.backends.sglang.report import (
    FACTS,
    Reporter,
    ReportError,
    read_counters,
    read_facts,
    report_folder,
)


def test_counters_are_summed_over_plugins_and_processes(tmp_path: Path) -> None:
    Reporter(tmp_path, "one", ("reads", "writes")).count("reads", 3)
    two = Reporter(tmp_path, "two", ("reads",))
    two.count("reads")
    code = (
        "from pathlib import Path; from harness.backends.sglang.report import Reporter;"
        f"Reporter(Path({str(tmp_path)!r}), 'one', ('writes',)).count('writes', 2**40)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert read_counters(tmp_path) == {"reads": 4, "writes": 2**40}
    two.count("reads")
    assert read_counters(tmp_path)["reads"] == 5


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    assert read_counters(tmp_path) == {}
    assert read_facts(tmp_path) == []


def test_facts_come_back_whole(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path, "one")
    reporter.fact({"plugin": "one", "rows": [1, 2]})
    reporter.fact({"plugin": "one", "rows": []})
    assert sorted(fact["rows"] for fact in read_facts(tmp_path)) == [[], [1, 2]]
    assert not list(tmp_path.glob("*.partial"))


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / f"x{FACTS}").write_text("[1]")
    with pytest.raises(ReportError, match=r"x\.facts\.json: found a list"):
        read_facts(tmp_path)
    (tmp_path / "y.counters").write_bytes(b"not names")
    with pytest.raises(ReportError, match=r"y\.counters: not a file of counters"):
        read_counters(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ENGINE_REPORT", str(tmp_path / "none"))
    with pytest.raises(ReportError, match="HARNESS_ENGINE_REPORT: found"):
        report_folder()
    monkeypatch.setenv("HARNESS_ENGINE_REPORT", str(tmp_path))
    assert report_folder() == tmp_path


def test_too_many_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="bytes of names"):
        Reporter(tmp_path, "one", [f"counter_{n:04}" for n in range(100)])
