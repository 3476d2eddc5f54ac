"""An append-only file of checksummed frames, one line each: `length sha256[:16] json`.

A crash can tear only the last frame; a torn tail is set aside, never glued to the next record.
"""

from __future__ import annotations

import hashlib
import os
from binascii import hexlify
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from harness.store.canonical import Json, canonical, parse
from harness.store.errors import ChangedError, IncompleteError, StorageError
from harness.store.files import create, storage_errors

_HEADER = 8 + 1 + 16 + 1
_CHUNK = 1 << 20
AROUND = _HEADER + 1
"""Bytes of a frame around a record's JSON."""


def frame(record: Json) -> bytes:
    """Return one framed line for `record`."""
    body = canonical(record)
    check = hashlib.sha256(body).hexdigest()[:16]
    return f"{len(body):08x} {check} ".encode() + body + b"\n"


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
        size += len(body) + AROUND
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
    lengths, sha256 = _Lengths(), hashlib.sha256
    if not path.exists():
        raise IncompleteError(f"{path}: missing")
    with storage_errors(path), path.open("rb", buffering=_CHUNK) as handle:
        for number, line in enumerate(handle, start=1):
            if bad:
                raise ChangedError(f"{path}: record {bad} fails its checksum")
            body = line[_HEADER:-1]
            # A JSON text holds no line break of its own, so that a whole frame is a whole line.
            check = hexlify(sha256(body).digest()[:8])
            if line[:_HEADER] == lengths[len(body)] + check + b" " and line[-1:] == b"\n":
                yield body
            else:
                bad = number


class _Lengths(dict[int, bytes]):
    """The head of a frame by the length of its JSON; few lengths make up a long log."""

    def __missing__(self, length: int) -> bytes:
        made = self[length] = b"%08x " % length
        return made


def stream(path: Path) -> Iterator[Json]:
    """Yield every whole record of a log; raises as `bodies` does."""
    for number, body in enumerate(bodies(path), start=1):
        yield _record(path, number, body)


def _record(path: Path, number: int, body: bytes) -> Json:
    try:
        value = parse(body, share=True)
    except ValueError as error:
        raise ChangedError(f"{path}: record {number} is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise ChangedError(f"{path}: record {number} is not an object")
    return value


Replay = Callable[[Iterator[bytes]], int]
"""Takes the JSON of every whole record in order; returns the bytes up to the last whole append."""


def _whole(records: Iterator[bytes]) -> int:
    """Every record is an append of its own."""
    return sum(len(body) + AROUND for body in records)


class FramedLog:
    """Writer of a framed log; on opening, a torn tail is moved to `<name>.torn.<n>`.

    `replay` is handed every whole record. Where several belong together, it says how far whole
    appends go: whole records after that are a torn tail too.
    """

    def __init__(self, path: Path, replay: Replay = _whole) -> None:
        self.path = path
        self.torn_bytes = 0
        """Bytes that opening set aside."""
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._recover(replay)
            self._handle: BinaryIO = path.open("ab", buffering=0)

    def _recover(self, replay: Replay) -> None:
        closed = replay(bodies(self.path))
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
