"""What plugins inside an engine tell the worker outside: a folder of counters and facts.

Counters are int64 numbers in a mapped file, one file for each process and plugin, so that counting
costs one store and a reader never waits. Facts are JSON objects, one file each, written once.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "HARNESS_ENGINE_REPORT"
"""The environment variable that names the folder."""

COUNTERS = ".counters"
FACTS = ".facts.json"
HEADER = 1024
"""Bytes before the numbers: the counters' names as a JSON array, padded with spaces."""


class ReportError(ValueError):
    """A report that cannot be written or read; the message names the file or the variable."""


def report_folder() -> Path:
    """The folder that the environment names. Raises ReportError when there is none."""
    name = os.environ.get(VARIABLE, "")
    if not name or not Path(name).is_dir():
        raise ReportError(f"{VARIABLE}: found '{name}', expected a folder that exists")
    return Path(name)


class Reporter:
    """One plugin's voice in one process. `names` are its counters, which start at zero."""

    def __init__(self, folder: Path, plugin: str, names: Sequence[str] = ()) -> None:
        self._folder = folder
        self._stem = f"{plugin}-{os.getpid()}-"
        self._places = {name: place for place, name in enumerate(names)}
        self._numbers = self._map(list(names)) if names else None

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        assert self._numbers is not None
        self._numbers[self._places[name]] += amount

    def fact(self, fact: dict[str, Any]) -> Path:
        """Write one fact and return its file; a reader sees all of it or nothing."""
        handle, name = tempfile.mkstemp(prefix=self._stem, suffix=".partial", dir=self._folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(fact, file, sort_keys=True)
        target = Path(name).with_suffix(FACTS)
        Path(name).replace(target)
        return target

    def _map(self, names: list[str]) -> memoryview:
        header = json.dumps(names).encode().ljust(HEADER)
        if len(header) > HEADER:
            raise ReportError(f"counters: found {len(header)} bytes of names, expected {HEADER}")
        handle, _ = tempfile.mkstemp(prefix=self._stem, suffix=COUNTERS, dir=self._folder)
        with os.fdopen(handle, "r+b") as file:
            file.write(header + bytes(8 * len(names)))
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0)
        return memoryview(mapped)[HEADER:].cast("q")


def read_counters(folder: Path) -> dict[str, int]:
    """Every counter of a folder, summed over processes. Raises ReportError for a broken file."""
    total: dict[str, int] = {}
    for path in sorted(folder.glob(f"*{COUNTERS}")):
        content = path.read_bytes()
        if not content:
            # Its process has just made the file and not written the header yet.
            continue
        try:
            names = json.loads(content[:HEADER])
            numbers = memoryview(content)[HEADER:].cast("q")
            pairs = list(zip(names, numbers, strict=True))
        except (ValueError, TypeError) as error:
            raise ReportError(f"{path}: not a file of counters: {error}") from error
        for name, number in pairs:
            total[name] = total.get(name, 0) + number
    return total


def read_facts(folder: Path) -> list[dict[str, Any]]:
    """Every fact of a folder, by file name. Raises ReportError for a broken file."""
    found = []
    for path in sorted(folder.glob(f"*{FACTS}")):
        try:
            fact = json.loads(path.read_bytes())
        except ValueError as error:
            raise ReportError(f"{path}: not a fact: {error}") from error
        if not isinstance(fact, dict):
            raise ReportError(f"{path}: found a {type(fact).__name__}, expected an object")
        found.append(fact)
    return found
