"""Nothing that is sealed may name a machine, a person, a folder of theirs, or a package index."""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

MODEL_OUTPUT = frozenset({"text", "answer"})
"""Keys whose values an engine made from a public prompt."""
CHOSEN_WORDS = frozenset({"plan_json", "key", "arm", "worker", "plan", "study"})
"""Keys whose values somebody chose to publish; a user called Max may have an arm called max."""

_PATH = re.compile(r"(?<![\w.:/])(?:~?/[\w.+@-]+(?:/[^\s'\"<>|:;,)]*)+|[A-Za-z]:\\[^\s'\"]+)")
_URL = re.compile(r"\b(?:https?|ssh|git\+\w+|file)://[^\s'\"<>]+")
_INDEX = re.compile(r"\bfile://|://[^\s/]*@|://[^\s'\"<>]*/simple\b")
_COMMON = frozenset({"root", "user", "ubuntu", "runner", "admin", "home", "localhost", "test"})


@cache
def _names() -> tuple[str, ...]:
    found = {socket.gethostname(), socket.gethostname().partition(".")[0], Path.home().name}
    with contextlib.suppress(KeyError, OSError):
        found.add(getpass.getuser())
    return tuple(sorted(n for n in found if len(n) >= 3 and n.lower() not in _COMMON))


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str] | None:
    words = "|".join(re.escape(name) for name in names)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])") if words else None


def _name_pattern() -> re.Pattern[str] | None:
    return _pattern(_names())


def scrub(text: str) -> str:
    """Return `text` with file names in place of machine paths, and without URLs and names."""
    text = _URL.sub("<url>", text)
    text = _PATH.sub(lambda match: match[0].replace("\\", "/").rstrip("/").rpartition("/")[2], text)
    pattern = _name_pattern()
    return pattern.sub("<name>", text) if pattern else text


def scrubbed(value: Any) -> Any:
    """Return a JSON value with `scrub` applied to every text in it."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(str(key)): scrubbed(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [scrubbed(entry) for entry in value]
    return value


_ODD = re.compile(rb"\\[^\"bfnrt]")
_TWO_SLASHES = re.compile(rb"/[^/\s\"<>]*/")


@cache
def _prefilter(names: tuple[str, ...]) -> tuple[tuple[bytes, re.Pattern[bytes]], ...]:
    """Each name's bytes, and where they stand for themselves: an escaped line end is no letter."""
    spelled = [
        json.dumps(name, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
        for name in names
    ]
    return tuple(
        (
            name,
            re.compile(rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt]))%b(?![A-Za-z0-9])" % re.escape(name)),
        )
        for name in spelled
    )


def may_leak(text: bytes) -> bool:
    """Whether `leaks` could find anything in what this JSON says; a quick look that may cry wolf.

    What JSON may spell in several ways (an escaped slash or letter) counts as found.
    """
    if b"\\" in text and _ODD.search(text):
        return True
    if b"://" in text or (b"/" in text and _TWO_SLASHES.search(text)):
        return True
    return any(name in text and alone.search(text) for name, alone in _prefilter(_names()))


def leaks(value: Any, key: str = "", *, chosen: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (key, what was found there) for everything that must not be sealed."""
    if isinstance(value, dict):
        for name, entry in value.items():
            where = f"{key}.{name}" if key else str(name)
            if name not in MODEL_OUTPUT:
                yield from leaks(entry, where, chosen=chosen or name in CHOSEN_WORDS)
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from leaks(entry, f"{key}[{place}]", chosen=chosen)
    elif isinstance(value, str):
        yield from ((key, found) for found in _found(value, names=not chosen))


def _found(text: str, *, names: bool) -> Iterator[str]:
    if _INDEX.search(text):
        yield "an index or file URL"
    if _PATH.search(text):
        yield "an absolute path"
    pattern = _name_pattern()
    if names and pattern and pattern.search(text):
        yield "a host or user name"
