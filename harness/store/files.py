"""Every write goes through here: exclusive publication by hard link, or atomic replacement."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from harness.store.canonical import canonical, parse_written
from harness.store.errors import ChangedError, IncompleteError, StorageError


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn `OSError` into a one-line `StorageError` naming `path`; `FileExistsError` passes."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_temporary(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def create(path: Path, data: bytes) -> None:
    """Publish `data` under a name that must not exist yet: all of it or nothing, one winner.

    Raises:
        FileExistsError: somebody else published first. StorageError: the disk refused.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _write_temporary(path, data)
        try:
            _link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def _link(temporary: Path, path: Path) -> None:
    """Publish by an exclusive hard link.

    A network file system may have made the link and lost the reply; then the retried call finds
    the name taken, by our own file, whose link count tells.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        if temporary.stat().st_nlink != 2 or not temporary.samefile(path):
            raise


@contextlib.contextmanager
def publishing(path: Path) -> Iterator[BinaryIO]:
    """Write a large file piece by piece; it appears under its name whole or not at all.

    Raises:
        FileExistsError: the name is taken. StorageError: the disk refused.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise FileExistsError(path)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        try:
            with temporary.open("xb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            _link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Write a derived file (a report, a figure), replacing what was there in one step."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _write_temporary(path, data)
        temporary.replace(path)
        sync_folder(path.parent)


def create_json(path: Path, value: object) -> None:
    """Publish canonical JSON with a final newline; see `create`."""
    create(path, canonical(value) + b"\n")


def replace_json(path: Path, value: object) -> None:
    """Write canonical JSON with a final newline; see `replace`."""
    replace(path, canonical(value) + b"\n")


def read(path: Path) -> bytes:
    """Return a file's bytes.

    Raises:
        IncompleteError: missing. StorageError: unreadable.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise IncompleteError(f"{path}: missing") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def read_json(path: Path) -> dict[str, object]:
    """Return the JSON object in a file that the harness wrote.

    Raises:
        IncompleteError: missing or empty. ChangedError: not canonical, so not what was written.
    """
    data = read(path)
    if not data:
        raise IncompleteError(f"{path}: empty, so cut short; restore it from version control")
    hint = " (line endings: the file holds CRLF)" if b"\r\n" in data else ""
    try:
        value = parse_written(data)
    except ValueError as error:
        raise ChangedError(
            f"{path}: damaged, not the JSON that was written: {error}{hint}"
        ) from error
    if not isinstance(value, dict) or not data.endswith(b"\n"):
        raise ChangedError(f"{path}: not in the canonical form that was written")
    return value
