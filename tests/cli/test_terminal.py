"""On a terminal there is a progress bar, and the table fits."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-c", "from harness.cli.main import entry; entry()", "run", "demo_fake"]


def in_terminal(folder: Path) -> tuple[int, str]:
    """Run the demo with a terminal as its output, and return exit code and what it showed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        COMMAND, cwd=folder, stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        code = process.wait()
    os.close(ours)
    return code, shown.decode("utf-8", "replace")


def test_a_terminal_shows_a_progress_bar_and_a_table(tmp_path: Path) -> None:
    code, shown = in_terminal(tmp_path)
    assert code == 0, shown
    assert "━" in shown
    assert "held" in shown
    assert "report.html" in shown
