"""RFC 8785 JSON and strict reading: one value has one spelling, and odd input is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from sys import intern
from typing import Any, NoReturn

import rfc8785

from harness.store.errors import UsageError

Json = dict[str, Any]


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of `value`.

    Raises:
        UsageError: NaN, infinities, lone surrogates, integers beyond ±(2^53 − 1) or non-JSON types.
    """
    try:
        if _is_plain(value):
            return _PLAIN.encode(value).encode("utf-8")
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise UsageError(f"value has no canonical JSON form: {error}") from error


_PLAIN = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
"""Writes the RFC 8785 bytes of plain values, several times as fast."""
_LARGEST = 2**53 - 1


def _is_plain(value: Any) -> bool:
    """Whether a value holds only ASCII keys and numbers that both writers spell alike."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-_LARGEST <= value <= _LARGEST)
    if kind is float:  # whole numbers lose their point, and exponents differ
        return bool(1e-4 <= abs(value) < 1e15) and not value.is_integer()
    if kind is dict:
        for key, entry in value.items():
            if type(key) is not str or not key.isascii() or not _is_plain(entry):
                return False
        return True
    return kind is list and all(map(_is_plain, value))


_SHORT = 17


def _object(pairs: list[tuple[str, Any]]) -> Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return result


def _shared_object(pairs: list[tuple[str, Any]]) -> Json:
    result: Json = {
        intern(key): intern(value) if type(value) is str and len(value) < _SHORT else value
        for key, value in pairs
    }
    return result if len(result) == len(pairs) else _object(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} overflows a double")
    return value


def _decoder(build: Callable[[list[tuple[str, Any]]], Json]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=build, parse_constant=_no_constant, parse_float=_finite
    )


_STRICT, _SHARING = _decoder(_object), _decoder(_shared_object)


def parse_written(data: bytes) -> Any:
    """Read what `canonical` wrote, with or without a final newline, and refuse any other bytes.

    Raises:
        ValueError: not strict JSON, or another spelling than the canonical one.
    """
    value = parse(data)
    try:
        written = canonical(value)
    except UsageError as error:
        raise ValueError(str(error)) from error
    if written != data.removesuffix(b"\n"):
        raise ValueError("not in the canonical form that was written")
    return value


def parse(data: bytes, *, share: bool = False) -> Any:
    """Read JSON strictly; with `share`, keys and short texts of all values are the same objects.

    Sharing takes half as long again, and lets the values of a million records fit in memory.

    Raises:
        ValueError: duplicate keys, NaN, infinities, overflowing numbers, or bytes not in UTF-8.
    """
    try:
        return (_SHARING if share else _STRICT).decode(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
