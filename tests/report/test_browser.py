from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.report.check import html_cells
from harness.report.ledger_report import write_ledger_report
from harness.report.render import written
from tests.report import example

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="/usr/bin/chromium is absent"),
]


def _open(path: Path, profile: Path, *more: str) -> tuple[str, str]:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--no-first-run", f"--user-data-dir={profile}", "--enable-logging=stderr", *more]
    command = [CHROMIUM, *flags, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def test_the_run_page_opens(tmp_path: Path, files: dict[str, bytes]) -> None:
    written(files, tmp_path / "report")
    page, log = _open(tmp_path / "report" / "report.html", tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in log
    assert html_cells(page) == html_cells(files["report.html"].decode())
    assert page.count("<figure ") == 8
    assert page.count('<svg role="img"') == 8
    assert page.count('data-cell="verdicts.') == 5 * 9
    assert page.count('data-cell="arms.') == 5 * 10


def test_the_ledger_page_opens(tmp_path: Path) -> None:
    records, analyses = example.ledger_records(), example.ledger_analyses()
    path = write_ledger_report("raven", records, analyses, tmp_path / "ledger")[0]
    page, log = _open(path, tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in log
    assert html_cells(page) == html_cells(path.read_text())


def test_a_screenshot_is_not_blank(tmp_path: Path, files: dict[str, bytes]) -> None:
    written(files, tmp_path / "report")
    shot = tmp_path / "page.png"
    _open(
        tmp_path / "report" / "report.html",
        tmp_path / "profile",
        f"--screenshot={shot}",
        "--window-size=1280,2600",
    )
    assert shot.stat().st_size > 50_000
