"""RFC 8785 JSON and strict reading: one value has one spelling, and odd input is refused."""

from __future__ import annotations

import json
import math
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
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise UsageError(f"value has no canonical JSON form: {error}") from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    result: Json = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} appears twice")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} overflows a double")
    return value


def parse(data: bytes) -> Any:
    """Read JSON strictly.

    Raises:
        ValueError: duplicate keys, NaN, infinities, overflowing numbers, or bytes not in UTF-8.
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
