"""How commands print: one console, `--json`, and a place for tracebacks."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Return a console for standard output; rich honours NO_COLOR and pipes by itself."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    return Console(width=width, highlight=False, soft_wrap=not sys.stdout.isatty())


def note(text: str) -> None:
    """Print one line for people to standard error, so that standard output stays data."""
    sys.stderr.write(f"{text}\n")


def print_json(value: Any) -> None:
    """Print JSON for programs."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def bug_log(text: str) -> Path:
    """Keep a traceback where the user can find it and return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="harness-", suffix=".log", delete=False, encoding="utf-8"
    ) as handle:
        handle.write(text)
    return Path(handle.name)
