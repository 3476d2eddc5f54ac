"""An append-only file of checksummed frames, one line each: `length sha256[:16] json`.

A crash can tear only the last frame; a torn tail is set aside, never glued to the next record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from harness.store.canonical import Json, canonical, parse
from harness.store.errors import ChangedError, StorageError
from harness.store.files import create, read, storage_errors

_HEADER = 8 + 1 + 16 + 1


def frame(record: Json) -> bytes:
    """Return one framed line for `record`."""
    body = canonical(record)
    check = hashlib.sha256(body).hexdigest()[:16]
    return f"{len(body):08x} {check} ".encode() + body + b"\n"


@dataclass(frozen=True)
class Scan:
    """Whole frames of a log and the bytes of a torn tail, if any."""

    records: list[Json]
    frames: list[bytes]
    whole_bytes: int
    torn: bytes


def scan(path: Path) -> Scan:
    """Read every whole frame.

    Raises:
        ChangedError: a frame before the end fails its checksum, so it was altered, not torn.
    """
    data = read(path)
    records: list[Json] = []
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        line, body = _next(data, position)
        if body is None:
            rest = data[position:]
            if b"\n" in rest[:-1]:
                raise ChangedError(f"{path}: record {len(records) + 1} fails its checksum")
            return Scan(records, frames, position, rest)
        records.append(_record(path, len(records) + 1, body))
        frames.append(line)
        position += len(line)
    return Scan(records, frames, position, b"")


def _next(data: bytes, start: int) -> tuple[bytes, bytes | None]:
    header = data[start : start + _HEADER]
    try:
        length = int(header[:8], 16)
    except ValueError:
        return b"", None
    end = start + _HEADER + length
    body = data[start + _HEADER : end]
    line = data[start : end + 1]
    whole = len(body) == length and line.endswith(b"\n") and header[8:9] == header[25:26] == b" "
    if not whole or hashlib.sha256(body).hexdigest()[:16].encode() != header[9:25]:
        return line, None
    return line, body


def _record(path: Path, number: int, body: bytes) -> Json:
    try:
        value = parse(body)
    except ValueError as error:
        raise ChangedError(f"{path}: record {number} is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise ChangedError(f"{path}: record {number} is not an object")
    return value


def _any_record(_: Json) -> bool:
    return True


def _closed(found: Scan, may_end: Callable[[Json], bool]) -> Scan:
    """Return a scan without the trailing records that no closing record follows."""
    count = len(found.records)
    while count and not may_end(found.records[count - 1]):
        count -= 1
    tail = b"".join(found.frames[count:])
    whole = found.whole_bytes - len(tail)
    return Scan(found.records[:count], found.frames[:count], whole, tail + found.torn)


class FramedLog:
    """Writer of a framed log; on opening, a torn tail is moved to `<name>.torn.<n>`.

    Where several records belong together, `may_end` says which of them closes a group: whole
    frames after the last such record are part of a torn append, and of the tail.
    """

    def __init__(self, path: Path, may_end: Callable[[Json], bool] = _any_record) -> None:
        self.path = path
        self._may_end = may_end
        self.recovered = Scan([], [], 0, b"")
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._recover()
            self._handle: BinaryIO = path.open("ab", buffering=0)

    def _recover(self) -> None:
        self.recovered = _closed(scan(self.path), self._may_end)
        if self.recovered.torn:
            number = len(list(self.path.parent.glob(f"{self.path.name}.torn.*"))) + 1
            create(self.path.with_name(f"{self.path.name}.torn.{number}"), self.recovered.torn)
            with self.path.open("r+b") as handle:
                handle.truncate(self.recovered.whole_bytes)
                os.fsync(handle.fileno())

    def append(self, *records: Json) -> None:
        """Write records as whole frames in one call and sync them to disk.

        Raises:
            StorageError: the disk refused; the partial frame is cut away again.
        """
        data = b"".join(frame(record) for record in records)
        before = self._handle.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(data):
                written += self._handle.write(data[written:])
            os.fsync(self._handle.fileno())
        except OSError as error:
            self._handle.truncate(before)
            raise StorageError(f"{self.path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file; everything appended is already on disk."""
        self._handle.close()

    def __enter__(self) -> FramedLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_framed(path: Path) -> list[dict[str, Any]]:
    """Return all whole records of a log, ignoring a torn tail."""
    return scan(path).records
