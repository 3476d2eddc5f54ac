"""Random damage to a finished study, and changes that are none."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Change = Callable[[random.Random, bytes], bytes]


def flip(choose: random.Random, data: bytes) -> bytes:
    place = choose.randrange(len(data))
    return data[:place] + bytes([data[place] ^ choose.randrange(1, 256)]) + data[place + 1 :]


def delete(choose: random.Random, data: bytes) -> bytes:
    start = choose.randrange(len(data))
    return data[:start] + data[start + choose.randrange(1, 40) :]


def duplicate(choose: random.Random, data: bytes) -> bytes:
    start = choose.randrange(len(data))
    end = start + choose.randrange(1, 40)
    return data[:end] + data[start:end] + data[end:]


def swap(choose: random.Random, data: bytes) -> bytes:
    size = choose.randrange(1, 20)
    first, second = sorted(choose.randrange(max(1, len(data) - size)) for _ in range(2))
    if second < first + size:
        return flip(choose, data)
    one, other = data[first : first + size], data[second : second + size]
    middle = data[first + size : second]
    return data[:first] + other + middle + one + data[second + size :]


def truncate(choose: random.Random, data: bytes) -> bytes:
    return data[: choose.randrange(len(data))]


def lines(choose: random.Random, data: bytes) -> bytes:
    """Delete, double or exchange whole lines."""
    parts = data.splitlines(keepends=True)
    first, second = choose.randrange(len(parts)), choose.randrange(len(parts))
    match choose.randrange(3):
        case 0:
            del parts[first]
        case 1:
            parts.insert(second, parts[first])
        case _:
            parts[first], parts[second] = parts[second], parts[first]
    return b"".join(parts)


BYTES: dict[str, tuple[Change, tuple[int, ...]]] = {
    "flip": (flip, (3,)),
    "delete": (delete, (3, 4)),
    "duplicate": (duplicate, (3,)),
    "swap": (swap, (3,)),
    "truncate": (truncate, (3, 4)),
    "lines": (lines, (3, 4)),
}
FILES = ("remove", "exchange", "copy", "empty")


@dataclass(frozen=True)
class Damage:
    """What was done, and which exit codes are right."""

    text: str
    codes: tuple[int, ...]


def targets(study: Path) -> list[Path]:
    """Every file whose bytes count: plans, locks, ledger, manifests, records, seals, analyses."""
    names = ("run.json", "journal.log", "seal.json", "analysis.json")
    found = [*(study / "conf").glob("*.yaml"), *(study / "preregistrations").rglob("*.json")]
    found += [*(study / "ledgers").rglob("*.json")]
    found += [path for path in (study / "runs").rglob("*") if path.name in names]
    return sorted(path for path in found if path.is_file())


@contextmanager
def damaged(choose: random.Random, files: Sequence[Path]) -> Iterator[Damage]:
    """Damage something, and put it back."""
    path, other = choose.sample(list(files), 2)
    kept = {one: one.read_bytes() for one in (path, other)}
    try:
        if choose.random() < 0.15:
            yield _file(choose, path, other)
        else:
            yield _bytes(choose, path)
    finally:
        for one, data in kept.items():
            one.write_bytes(data)


def _bytes(choose: random.Random, path: Path) -> Damage:
    name = choose.choice(list(BYTES))
    change, codes = BYTES[name]
    before = path.read_bytes()
    after = before
    while after == before:
        after = change(choose, before)
        if after == before and name == "lines":
            name, (change, codes) = "flip", BYTES["flip"]
    path.write_bytes(after)
    return Damage(f"{name} in {path.name}", codes)


def _file(choose: random.Random, path: Path, other: Path) -> Damage:
    name = choose.choice(FILES)
    if name == "remove" and path.name == "analysis.json":
        name = "empty"  # a derived file may be absent; a damaged one may not be there
    if name == "remove":
        path.unlink()
    elif name == "empty":
        path.write_bytes(b"")
    elif name == "copy":
        path.write_bytes(other.read_bytes())
    else:
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)
    return Damage(f"{name} {path.name}, {other.name}", (3, 4))


def harmless(choose: random.Random, study: Path, scratch: Path) -> tuple[str, Path, Path]:
    """Change what does not count; returns what, the folder to verify from, and what to remove."""
    copy = scratch / f"other place {choose.randrange(1 << 40)}"
    kind = choose.choice(("times", "modes", "place", "umask", "below", "strays", "derived"))
    if kind == "umask":
        before = os.umask(choose.choice((0o077, 0o027, 0o002)))
        try:
            shutil.copytree(study, copy, copy_function=shutil.copyfile)
        finally:
            os.umask(before)
        return kind, copy, copy
    shutil.copytree(study, copy)
    files = [path for path in copy.rglob("*") if path.is_file()]
    if kind == "times":
        for path in files:
            os.utime(path, (choose.randrange(1 << 31),) * 2)
    elif kind == "modes":
        for path in files:
            path.chmod(choose.choice((0o400, 0o644, 0o755, 0o600)))
    elif kind == "strays":
        (copy / "ledgers" / "toy" / f".x.{choose.randrange(99)}.tmp").write_bytes(b"torn")
    elif kind == "derived":
        for path in files:
            if "report" in path.parts or path.name == "analysis.json":
                path.unlink()
    start = copy / "runs" / "toy_confirm" if kind == "below" else copy
    return kind, start, copy
