"""SHA-256 of bytes, files and file tables."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.store.canonical import canonical
from harness.store.errors import ChangedError, IncompleteError, StorageError, UsageError

FileTable = dict[str, dict[str, Any]]


def sha256_bytes(data: bytes) -> str:
    """Return the hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Return the hex SHA-256 of the canonical JSON of `value`."""
    return sha256_bytes(canonical(value))


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a regular file, streamed.

    Raises:
        IncompleteError: the file is missing. StorageError: it cannot be read.
    """
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise IncompleteError(f"{path}: missing") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def file_table(root: Path, paths: Iterable[Path]) -> FileTable:
    """Return `{relative path: {bytes, sha256}}` for regular files below `root`.

    Raises:
        UsageError: a link, device or name with control characters. IncompleteError: a missing file.
    """
    return {_name(root, path): _entry(path) for path in sorted(paths)}


def _name(root: Path, path: Path) -> str:
    name = path.relative_to(root).as_posix()
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise UsageError(f"{name!r}: file names with control characters are refused")
    return name


def _entry(path: Path) -> dict[str, Any]:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError as error:
        raise IncompleteError(f"{path}: missing") from error
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path}: only regular files can be hashed, found a link or special file")
    return {"bytes": str(path.stat().st_size), "sha256": sha256_file(path)}


def walk(root: Path) -> list[Path]:
    """Return every file below `root`, sorted, without following links; links are listed too."""
    found: list[Path] = []
    for folder, _, names in os.walk(root):
        found += [Path(folder) / name for name in names]
    return sorted(found)


def check_table(root: Path, table: FileTable, hint: str = "") -> None:
    """Compare files with a table.

    Raises:
        ChangedError: naming the first file that differs. IncompleteError: a file is missing.
    """
    for name, entry in table.items():
        path = root / name
        found = _entry(path)
        if found != entry:
            raise ChangedError(
                f"{name}: changed since it was recorded: found sha256 {found['sha256'][:12]}…, "
                f"expected {entry['sha256'][:12]}…{_line_endings(path)}{hint}"
            )


def _line_endings(path: Path) -> str:
    with path.open("rb") as handle:
        return " (line endings: the file holds CRLF)" if b"\r\n" in handle.read(1 << 20) else ""
