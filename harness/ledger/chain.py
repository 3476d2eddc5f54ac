"""The record store: one canonical JSON file per record, each naming the digest of the one before.

A record's file name is its place, and a hard link publishes it whole or not at all, so writers
need no lock, forks cannot happen and a crash leaves at most a temporary file. The head (count and
digest) is kept beside the folder too, so that a removed tail or a rewritten last record shows.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store.canonical import Json, canonical, parse, parse_written
from harness.store.clock import CLOCK, Clock
from harness.store.digests import sha256_bytes
from harness.store.errors import ChangedError, HarnessError, IncompleteError, RefusedError
from harness.store.files import create, read, read_json, replace, replace_json

FORMAT = 1
GENESIS = "0" * 64
"""What the first record names as its predecessor."""

_NAME = re.compile(r"\d{8}\.json")
_HEX = re.compile(r"[0-9a-f]{64}")
_FIELDS: dict[str, type] = {
    "format": int, "n": int, "prev": str, "kind": str, "at": str, "body": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Head:
    """How many records a chain holds and the digest of its last record's file."""

    count: int
    digest: str

    def json(self) -> Json:
        """Return the head as it is stored in locks and seals."""
        return {"count": self.count, "digest": self.digest}


EMPTY = Head(0, GENESIS)


def head_from_json(value: object, where: str) -> Head:
    """Read a stored head.

    Raises:
        ChangedError: naming `where`; not a count and a SHA-256.
    """
    if isinstance(value, dict) and set(value) == {"count", "digest"}:
        count, digest = value["count"], value["digest"]
        if type(count) is int and count >= 0 and isinstance(digest, str) and _HEX.fullmatch(digest):
            return Head(count, digest)
    raise ChangedError(f"{where}: not a ledger head; expected a count and a sha256")


@dataclass(frozen=True)
class Record:
    """One entry of the chain; `digest` is the SHA-256 of its file's bytes."""

    n: int
    prev: str
    kind: str
    at: str
    body: Json
    digest: str


Guard = Callable[[Sequence[Record]], None]


class Chain:
    """The records in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head_file = folder.with_name(f"{folder.name}.head.json")

    def path(self, n: int) -> Path:
        """Return the file of record `n`."""
        return self.folder / f"{n:08d}.json"

    def records(self) -> list[Record]:
        """Return every record, checked strictly; a missing folder is an empty chain.

        Raises:
            ChangedError: naming the first record that is damaged, missing or out of place, what was
                found and what was expected. IncompleteError: the record is cut short.
        """
        found: list[Record] = []
        names = self._record_names()
        last = GENESIS
        for n, name in enumerate(names, start=1):
            if name != self.path(n).name:
                raise ChangedError(f"{self._where(n)}: missing; the ledger goes on with {name}")
            record = self._read(n, last)
            found.append(record)
            last = record.digest
        return found

    @property
    def head(self) -> Head:
        """Count and digest of the last record."""
        return head_of(self.records())

    def strays(self) -> list[str]:
        """Return names of temporary and hidden files: what a killed writer leaves; harmless."""
        return sorted(name for name in self._names() if name.startswith("."))

    def verify(self, expected: Head | None = None) -> list[Record]:
        """Return the records after checking them, the head file, and one head recorded elsewhere.

        Raises:
            ChangedError: a damaged record, a removed tail, or a rewritten record.
            IncompleteError: a record is cut short, or the head file is missing.
        """
        noted = self._noted_head()
        records = self.records()
        if noted is None and len(records) > 1:
            raise IncompleteError(
                f"{self._head_label}: missing, so a removed tail would not show; restore it "
                "from version control"
            )
        self.check_head(records, noted or EMPTY, self._head_label)
        self.check_head(records, expected or EMPTY, "the expected head")
        return records

    def intact(self) -> list[Record]:
        """Return the records if more may follow them.

        Raises:
            RefusedError: a damaged record, a removed tail, or a rewritten record.
        """
        try:
            noted = self._noted_head()
            records = self.records()
            self.check_head(records, noted or EMPTY, self._head_label)
        except (ChangedError, IncompleteError) as error:
            raise RefusedError(
                f"{error}; nothing is added to a broken ledger, restore it from version control"
            ) from error
        return records

    def check_head(self, records: Sequence[Record], head: Head, source: str) -> None:
        """Check that `records` still hold what the chain held when `source` recorded `head`.

        Raises:
            ChangedError: fewer records than then, or another record in that place.
        """
        if head.count > len(records):
            raise ChangedError(
                f"{self._where(len(records) + 1)}: missing; found {len(records)} records, expected "
                f"at least {head.count} by {source}; the tail was removed"
            )
        found = records[head.count - 1].digest if head.count else GENESIS
        if found != head.digest:
            raise ChangedError(
                f"{self._where(head.count)}: rewritten; found sha256 {found[:12]}…, expected "
                f"{head.digest[:12]}… by {source}"
            )

    def append(
        self, kind: str, body: Json, clock: Clock = CLOCK, *, guard: Guard | None = None
    ) -> Record:
        """Publish one record and return it; where another writer was faster, take the next place.

        `guard` sees the records that the new one will follow, directly before it is published; what
        it raises stops the append. So a condition on the history and the append are one step.

        Raises:
            RefusedError: the chain is broken. StorageError: the disk refused.
        """
        while True:
            records = self.intact()
            if guard is not None:
                guard(records)
            head = head_of(records)
            value = {
                "format": FORMAT,
                "n": head.count + 1,
                "prev": head.digest,
                "kind": kind,
                "at": clock.utc(),
                "body": body,
            }
            data = canonical(value) + b"\n"
            try:
                create(self.path(head.count + 1), data)
            except FileExistsError:
                continue
            self._note_head(Head(head.count + 1, sha256_bytes(data)))
            return self._read(head.count + 1, head.digest)

    def mend(self, kind: str, describe: Callable[[bytes, Head | None], Json], clock: Clock) -> Path:
        """Move a last record that was cut short aside and put a record of that in its place.

        Returns where the bytes are now.

        Raises:
            RefusedError: the last record is whole, or an earlier one is broken.
        """
        names = self._record_names()
        n = len(names)
        torn = read(self.path(n)) if n else b""
        if not n or not cut_short(torn):
            raise RefusedError(f"{self._label}: its last record is whole; nothing to repair")
        last = GENESIS
        for place in range(1, n):
            last = self._read(place, last).digest
        aside = self.path(n).with_name(f".{self.path(n).name}.torn")
        with contextlib.suppress(FileExistsError):
            create(aside, torn)
        value = {
            "format": FORMAT,
            "n": n,
            "prev": last,
            "kind": kind,
            "at": clock.utc(),
            "body": describe(torn, self._noted_head()),
        }
        data = canonical(value) + b"\n"
        replace(self.path(n), data)
        self._note_head(Head(n, sha256_bytes(data)))
        return aside

    def _noted_head(self) -> Head | None:
        """The head file's content. Read it before the records: it never runs ahead of them."""
        if not self.head_file.exists():
            return None
        return head_from_json(read_json(self.head_file), self._head_label)

    def _note_head(self, head: Head) -> None:
        """Write the head file; a writer overtaken meanwhile writes again, so it never goes back."""
        replace_json(self.head_file, head.json())
        while self.path(head.count + 1).exists():
            head = self.head
            replace_json(self.head_file, head.json())

    def _names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir())

    def _record_names(self) -> list[str]:
        names = [name for name in self._names() if not name.startswith(".")]
        for name in names:
            if not _NAME.fullmatch(name):
                raise ChangedError(
                    f"{self._label}: {name!r} is no record; expected only NNNNNNNN.json"
                )
        return names

    def _where(self, n: int) -> str:
        return f"{self._label}/{self.path(n).name}: record {n}"

    @property
    def _head_label(self) -> str:
        return f"{self.folder.parent.name}/{self.head_file.name}"

    @property
    def _label(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    def _read(self, n: int, prev: str) -> Record:
        path, where = self.path(n), self._where(n)
        if not stat.S_ISREG(path.lstat().st_mode):
            raise ChangedError(f"{where}: a link or special file; expected a regular file")
        data = read(path)
        if cut_short(data):
            raise IncompleteError(f"{where}: torn tail, cut short after {len(data)} bytes")
        value = _parsed(data, where)
        _check_fields(value, where)
        for field, expected in (("format", FORMAT), ("n", n)):
            if value[field] != expected:
                raise ChangedError(f"{where}: {field}: found {value[field]}, expected {expected}")
        if value["prev"] != prev:
            raise self._unlinked(n, sha256_bytes(data), value["prev"], prev)
        return Record(n, prev, value["kind"], value["at"], value["body"], sha256_bytes(data))

    def _unlinked(self, n: int, digest: str, named: str, before: str) -> ChangedError:
        """Say which of two records that do not link was changed.

        Record `n` vouches for its predecessor only if it is itself what its successor, or the
        noted head, vouches for; else it is the one to name.
        """
        if n > 1 and self._vouched(n) == digest:
            return ChangedError(
                f"{self._where(n - 1)}: changed; found sha256 {before[:12]}…, expected "
                f"{named[:12]}… by record {n}"
            )
        return ChangedError(
            f"{self._where(n)}: changed; its prev is {named[:12]}…, expected {before[:12]}…, the "
            f"sha256 of {f'record {n - 1}' if n > 1 else 'nothing: it is the first'}"
        )

    def _vouched(self, n: int) -> str | None:
        """Return the digest of record `n` by what follows it; None where nothing whole does."""
        try:
            if self.path(n + 1).exists():
                return str(_parsed(read(self.path(n + 1)), self._where(n + 1)).get("prev"))
            noted = self._noted_head()
        except HarnessError:
            return None
        return noted.digest if noted is not None and noted.count == n else None


def head_of(records: Sequence[Record]) -> Head:
    """Return the head of a chain that holds `records`."""
    return Head(len(records), records[-1].digest) if records else EMPTY


def cut_short(data: bytes) -> bool:
    """Whether `data` is a beginning of a record, rather than a record with altered bytes.

    Canonical JSON escapes newlines, so the only one is the last byte; a record that merely lost or
    changed that byte is still whole JSON before it.
    """
    if data.endswith(b"\n"):
        return False
    try:
        parse(data[:-1])
    except ValueError:
        return True
    return False


def _parsed(data: bytes, where: str) -> Json:
    try:
        value = parse_written(data)
    except ValueError as error:
        hint = " (line endings: the file holds CRLF)" if b"\r\n" in data else ""
        text = f"damaged, not the JSON that was written: {error}{hint}"
        raise ChangedError(f"{where}: {text}") from error
    if not isinstance(value, dict):
        raise ChangedError(f"{where}: found {type(value).__name__}, expected an object")
    if not data.endswith(b"\n"):
        raise ChangedError(f"{where}: lacks its final newline")
    return value


def _check_fields(value: Json, where: str) -> None:
    if set(value) != set(_FIELDS):
        odd = ", ".join(sorted(set(value) ^ set(_FIELDS)))
        raise ChangedError(f"{where}: fields differ in {odd}; expected {', '.join(_FIELDS)}")
    for field, kind in _FIELDS.items():
        if type(value[field]) is not kind:
            raise ChangedError(
                f"{where}: {field}: found {type(value[field]).__name__}, expected {kind.__name__}"
            )
