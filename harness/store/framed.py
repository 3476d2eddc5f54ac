"""An append-only file of checksummed frames, one line each: `length sha256[:16] json`.

A crash can tear only the last frame; a torn tail is set aside, never glued to the next record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from harness.store.canonical import Json, canonical, parse
from harness.store.errors import ChangedError, IncompleteError, StorageError
from harness.store.files import create, storage_errors

_HEADER = 8 + 1 + 16 + 1


def frame(record: Json) -> bytes:
    """Return one framed line for `record`."""
    body = canonical(record)
    check = hashlib.sha256(body).hexdigest()[:16]
    return f"{len(body):08x} {check} ".encode() + body + b"\n"


def frame_bytes(body: bytes) -> int:
    """Return the size of the frame around a record's JSON."""
    return _HEADER + len(body) + 1


@dataclass(frozen=True)
class Scan:
    """Whole records of a log, the bytes that they take, and the bytes of a torn tail, if any."""

    records: list[Json]
    whole_bytes: int
    torn: bytes

    @property
    def frames(self) -> list[bytes]:
        """The bytes of every record's frame."""
        return [frame(record) for record in self.records]


def scan(path: Path) -> Scan:
    """Read every whole record.

    Raises:
        ChangedError: a frame before the end fails its checksum, so it was altered, not torn.
        IncompleteError: there is no such file.
    """
    records: list[Json] = []
    size = 0
    for number, body in enumerate(bodies(path), start=1):
        records.append(_record(path, number, body))
        size += frame_bytes(body)
    with storage_errors(path), path.open("rb") as handle:
        handle.seek(size)
        return Scan(records, size, handle.read())


def bodies(path: Path) -> Iterator[bytes]:
    """Yield the checked JSON of every whole frame, in little memory; a torn tail is left out.

    Raises:
        ChangedError: a frame before the end fails its checksum, so it was altered, not torn.
        IncompleteError: there is no such file.
    """
    bad = 0
    if not path.exists():
        raise IncompleteError(f"{path}: missing")
    with storage_errors(path), path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if bad:
                raise ChangedError(f"{path}: record {bad} fails its checksum")
            if not _is_frame(line):
                bad = number
                continue
            yield line[_HEADER:-1]


def stream(path: Path) -> Iterator[Json]:
    """Yield every whole record of a log; raises as `bodies` does."""
    for number, body in enumerate(bodies(path), start=1):
        yield _record(path, number, body)


def _record(path: Path, number: int, body: bytes) -> Json:
    try:
        value = parse(body)
    except ValueError as error:
        raise ChangedError(f"{path}: record {number} is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise ChangedError(f"{path}: record {number} is not an object")
    return value


def _is_frame(line: bytes) -> bool:
    """Whether a line is a whole frame; a JSON text holds no line break of its own."""
    try:
        length = int(line[:8], 16)
    except ValueError:
        return False
    whole = len(line) == _HEADER + length + 1 and line[-1:] == b"\n"
    if not whole or line[8:9] != b" " or line[25:26] != b" ":
        return False
    return hashlib.sha256(line[_HEADER:-1]).hexdigest()[:16].encode() == line[9:25]


Taker = Callable[[bytes], bool]
"""Takes the JSON of one record and says whether it can be the last one of an append."""


class FramedLog:
    """Writer of a framed log; on opening, a torn tail is moved to `<name>.torn.<n>`.

    `take` is handed every whole record in order. Where several records belong together, it says
    which of them closes a group: whole records after the last such one are a torn tail too.
    """

    def __init__(self, path: Path, take: Taker | None = None) -> None:
        self.path = path
        self.torn_bytes = 0
        """Bytes that opening set aside."""
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._recover(take)
            self._handle: BinaryIO = path.open("ab", buffering=0)

    def _recover(self, take: Taker | None) -> None:
        position = closed = 0
        for body in bodies(self.path):
            position += frame_bytes(body)
            if take is None or take(body):
                closed = position
        self.torn_bytes = self.path.stat().st_size - closed
        if self.torn_bytes:
            with self.path.open("r+b") as handle:
                handle.seek(closed)
                number = len(list(self.path.parent.glob(f"{self.path.name}.torn.*"))) + 1
                create(self.path.with_name(f"{self.path.name}.torn.{number}"), handle.read())
                handle.truncate(closed)
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
    return list(stream(path))
