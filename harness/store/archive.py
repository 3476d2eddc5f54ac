"""One deterministic tar: fixed order, no times, owners or modes, and a table of its members inside.

The same files give the same bytes everywhere. A reader rebuilds every header from the member's name
and size and compares it, so no bit of the file, padding included, can differ unseen.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NoReturn

from harness.store.canonical import Json, canonical, parse
from harness.store.digests import FileTable, file_table, sha256_bytes
from harness.store.errors import ChangedError, IncompleteError, StorageError, UsageError
from harness.store.files import publishing, storage_errors

FORMAT = 1
MANIFEST = "MANIFEST.json"
CHECK = "MANIFEST.sha256"
_BLOCK = 512
_CHUNK = 1 << 20
_END = bytes(2 * _BLOCK)
_LARGEST_MANIFEST = 64 << 20
_LARGEST_MEMBER = (8 << 30) - 1


def pack(path: Path, names: Mapping[str, Path], facts: Json) -> Json:
    """Write an archive of files under the given names and return its manifest.

    Raises:
        UsageError: a link, a special file, an odd name, or an archive of that name. StorageError.
    """
    table: FileTable = {}
    for name, source in sorted(names.items()):
        problem = odd_name(name)
        if problem:
            raise UsageError(f"{name!r}: {problem}; not packed")
        table[name] = file_table(source.parent, [source])[source.name]
        if int(table[name]["bytes"]) > _LARGEST_MEMBER:
            raise UsageError(f"{name}: larger than 8 GiB, which this format cannot hold")
    manifest: Json = {"format": FORMAT, **facts, "members": table}
    data = canonical(manifest) + b"\n"
    try:
        with publishing(path) as out:
            _write(out, MANIFEST, data)
            for name in table:
                _copy(out, name, names[name], table[name])
            _write(out, CHECK, sha256_bytes(data).encode() + b"\n")
            out.write(_END)
    except FileExistsError as error:
        raise UsageError(f"{path}: exists; an archive is never overwritten") from error
    return manifest


def odd_name(name: str) -> str | None:
    """Return what is wrong with a member's name, or None."""
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "a name with control characters"
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in parts):
        return "a name that is absolute or leaves its folder"
    return None


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder.

    Raises:
        UsageError: a link or a special file anywhere in it, or an odd name.
    """
    for here, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            path = Path(here) / name
            mode = path.lstat().st_mode
            problem = odd_name(name)
            if problem:
                raise UsageError(f"{path.name!r} in {Path(here).name}: {problem}; not packed")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UsageError(f"{path}: a link or special file; not packed")
            if stat.S_ISREG(mode):
                yield path


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except (ValueError, UnicodeEncodeError) as error:
        raise UsageError(f"{name}: this name does not fit into an archive: {error}") from error


def _write(out: BinaryIO, name: str, data: bytes) -> None:
    out.write(_header(name, len(data)) + data + bytes(-len(data) % _BLOCK))


def _copy(out: BinaryIO, name: str, source: Path, entry: Mapping[str, str]) -> None:
    size, found = int(entry["bytes"]), hashlib.sha256()
    out.write(_header(name, size))
    written = 0
    with source.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            found.update(chunk)
            written += out.write(chunk)
    out.write(bytes(-size % _BLOCK))
    if written != size or found.hexdigest() != entry["sha256"]:
        raise ChangedError(f"{name}: changed while it was packed")


class Reader:
    """Reads an archive once, from front to back, in constant memory."""

    def __init__(self, path: Path) -> None:
        self._label = path.name
        try:
            self._handle = path.open("rb")
        except FileNotFoundError as error:
            raise IncompleteError(f"{path}: missing") from error
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error

    def unpack(self, into: Path) -> Json:
        """Check every byte, write the members below a folder, and return the manifest.

        Raises:
            ChangedError: naming the member that is not what was packed. IncompleteError: one is
            missing, or the file ends too early.
        """
        with self._handle:
            manifest, data = self._manifest()
            table: dict[str, dict[str, str]] = manifest["members"]
            for name, entry in table.items():
                self._member(name, table)
                self._content(name, entry, into / name)
            self._member(CHECK, table)
            if self._take(65, CHECK) != sha256_bytes(data).encode() + b"\n":
                self._fail(CHECK, "not the digest of the manifest")
            self._padding(65, CHECK)
            if self._handle.read(len(_END) + 1) != _END:
                self._fail("its end", "more or less than two blocks of zeros")
        return manifest

    def _manifest(self) -> tuple[Json, bytes]:
        name, size = self._next()
        if name != MANIFEST:
            self._fail(name, f"found first, expected {MANIFEST}")
        if size > _LARGEST_MANIFEST:
            self._fail(MANIFEST, f"found {size} bytes, expected a table of members")
        data = self._take(size, MANIFEST)
        self._padding(size, MANIFEST)
        try:
            value = parse(data)
            plain = canonical(value) + b"\n" == data
            members = value["members"]
            sound = all(
                odd_name(member) is None and set(entry) == {"bytes", "sha256"}
                for member, entry in members.items()
            )
        except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
            raise ChangedError(f"{self._label}: {MANIFEST}: damaged: {error}") from error
        if not plain or not sound or value["format"] != FORMAT:
            self._fail(MANIFEST, "not what was written")
        return value, data

    def _member(self, wanted: str, table: Mapping[str, object]) -> None:
        name, size = self._next()
        if name != wanted:
            if name not in table and name != CHECK:
                self._fail(name, "not in the manifest")
            raise IncompleteError(f"{self._label}: {wanted}: missing; found {name} in its place")
        entry = table.get(wanted)
        expected = int(entry["bytes"]) if isinstance(entry, dict) else 65
        if size != expected:
            self._fail(name, f"found {size} bytes, expected {expected}")

    def _next(self) -> tuple[str, int]:
        place = self._handle.tell()
        block = self._take(_BLOCK, f"the header at byte {place}")
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            if not any(block):
                raise IncompleteError(
                    f"{self._label}: ends at byte {place}, before its last member"
                ) from error
            raise ChangedError(f"{self._label}: the header at byte {place}: {error}") from error
        problem = odd_name(info.name)
        if info.type != tarfile.REGTYPE:
            self._fail(info.name, "a link or special file; only regular files are packed")
        if problem:
            self._fail(repr(info.name), problem)
        if _header(info.name, info.size) != block:
            self._fail(info.name, "its header is not the one that was written")
        return info.name, info.size

    def _content(self, name: str, entry: Mapping[str, str], target: Path) -> None:
        size, found = int(entry["bytes"]), hashlib.sha256()
        with storage_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                left = size
                while left:
                    chunk = self._take(min(left, _CHUNK), name)
                    found.update(chunk)
                    out.write(chunk)
                    left -= len(chunk)
        self._padding(size, name)
        if found.hexdigest() != entry["sha256"]:
            self._fail(
                name,
                f"found sha256 {found.hexdigest()[:12]}…, expected {entry['sha256'][:12]}…",
            )

    def _padding(self, size: int, name: str) -> None:
        length = -size % _BLOCK
        if self._take(length, name) != bytes(length):
            self._fail(name, "its padding is not zeros")

    def _take(self, count: int, what: str) -> bytes:
        data = self._handle.read(count)
        if len(data) < count:
            raise IncompleteError(f"{self._label}: {what}: cut short; the file ends too early")
        return data

    def _fail(self, name: str, problem: str) -> NoReturn:
        raise ChangedError(f"{self._label}: {name}: {problem}")
