"""Frozen files stay as they are while a run goes on: looked at before every block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.prereg.amendments import current_table
from harness.prereg.lock import Lock
from harness.prereg.tables import differences, locate
from harness.store.digests import FileTable
from harness.store.errors import ChangedError
from harness.store.paths import Project

PARTS = ("conf", "patch", "model")
"""What no run may see changed. Code is read at a worker's start, and checked before the run."""

_Stamp = tuple[int, int, int]


def frozen_files(project: Project, lock: Lock | None) -> Callable[[], None]:
    """Return a check that a lock's files are unchanged; a file is hashed again once it was touched.

    The check raises `ChangedError` with both digests; a run that stops on it can be resumed when
    the file is back.
    """
    tables = [current_table(project, lock, part) for part in PARTS] if lock else []
    table: FileTable = {name: entry for part in tables for name, entry in part.items()}
    seen: dict[str, _Stamp] = {}

    def check() -> None:
        found = {name: _stamp(locate(project, name)) for name in table}
        touched = [name for name, stamp in found.items() if seen.get(name) != stamp]
        for name, error in differences(project, {name: table[name] for name in touched}):
            raise ChangedError(f"{name}: changed while the run goes on: {error}")
        seen.update(found)

    return check


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
