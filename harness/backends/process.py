"""Any program that speaks the wire, as an arm: `options.command` is its argument list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store.errors import UsageError

GUARD = Path(__file__).with_name("guard.py")


def command(options: Mapping[str, Any], python: str = sys.executable) -> list[str]:
    """Return the command line of the program; the word `python` stands for the arm's interpreter.

    Raises:
        UsageError: `command` is not a non-empty list of text.
    """
    words = options.get("command")
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise UsageError(f"options.command: found {words!r}, expected a list of words")
    program = python if words[0] == "python" else words[0]
    return [sys.executable, "-I", "-S", str(GUARD), program, *words[1:]]
