"""Cells of a table as ids, hashes and numbers; what is neither ends in one line with its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import EXACT_INTEGERS, LARGEST, Floats
from harness.store.errors import UsageError

Hashes = npt.NDArray[np.uint64]
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Words, in any case, for a number that is missing."""

_WORDS = {"true": "1", "false": "0"}


def ids(array: Any, header: str, first_row: int) -> Any:
    """Return ids as Arrow text, whole numbers as their decimals.

    Raises:
        UsageError: a missing id, or a column that holds neither text nor whole numbers.
    """
    import pyarrow as pa
    from pyarrow import compute

    found = _decoded(array)
    kind = found.type
    if pa.types.is_null(kind) and len(found):
        raise UsageError(f"{header}: row {first_row + 1} has no id")
    if not (_is_text(kind) or pa.types.is_integer(kind)):
        raise UsageError(f"{header}: holds {kind}, ids are text or whole numbers")
    text = found.cast(pa.string())
    blank = compute.equal(compute.utf8_trim_whitespace(text), "")
    bad = compute.fill_null(blank, fill_value=True).to_numpy(zero_copy_only=False)
    if bad.any():
        raise UsageError(f"{header}: row {first_row + int(np.argmax(bad)) + 1} has no id")
    return text


def hashes(text: Any) -> Hashes:
    """Return a 64-bit hash of each text (SipHash with a fixed key), a function of the text alone.

    Two of a hundred million ids share one with probability 3·10⁻⁴, which ends in a refusal.
    """
    from pandas.util import hash_array

    if len(text) == 0:
        return np.zeros(0, dtype=np.uint64)
    encoded = text.dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False).astype(object)
    places = encoded.indices.to_numpy(zero_copy_only=False)
    return np.asarray(hash_array(distinct, categorize=False)[places], dtype=np.uint64)


def joined(first: Hashes, second: Hashes) -> Hashes:
    """Return a hash of each pair of hashes."""
    spread = second * np.uint64(0x9E3779B97F4A7C15)
    mixed = first ^ (spread ^ (spread >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def numbers(array: Any, header: str, first_row: int) -> Floats:
    """Return numbers as float64, NaN where one is missing.

    Raises:
        UsageError: text that is no number, an infinity, or a whole number that float64 would round.
    """
    import pyarrow as pa

    found = _decoded(array)
    kind = found.type
    if _is_text(kind):
        found = _parsed(found.cast(pa.string()), header, first_row)
    elif pa.types.is_boolean(kind):
        found = found.cast(pa.uint8())
    elif pa.types.is_integer(kind):
        _check_whole(found, header)
    elif not (pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise UsageError(f"{header}: holds {kind}, needs numbers")
    values = np.array(found.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    _check_size(values, header, first_row)
    return values


def value_hashes(array: Any, header: str) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return a hash of each value that two arms may agree on, and where it is missing."""
    import pyarrow as pa

    found = _decoded(array)
    kind = found.type
    if pa.types.is_floating(kind):
        bits = found.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        return np.array(bits).view(np.uint64), np.isnan(bits)
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise UsageError(f"{header}: holds {kind}; agreement is of text or numbers")
    text = found.cast(pa.string())
    missing = text.is_null().to_numpy(zero_copy_only=False)
    return hashes(text.fill_null("")), missing


def _decoded(array: Any) -> Any:
    import pyarrow as pa

    found = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _parsed(text: Any, header: str, first_row: int) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    bare = compute.utf8_trim_whitespace(text)
    lower = compute.utf8_lower(bare)
    absent = compute.is_in(lower, value_set=pa.array(MISSING))
    bare = compute.if_else(absent, pa.scalar(None, pa.string()), bare)
    for word, digit in _WORDS.items():
        bare = compute.if_else(compute.equal(lower, word), digit, bare)
    try:
        return bare.cast(pa.float64())
    except pa.ArrowInvalid as error:
        row = _first_bad(bare)
        shown = repr(text[row].as_py())[:60]
        raise UsageError(f"{header}: row {first_row + row + 1}: {shown} is not a number") from error


def _first_bad(text: Any) -> int:
    """Return the first entry that is not a number, by bisection."""
    import pyarrow as pa

    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            text.slice(low, middle - low).cast(pa.float64())
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _check_whole(found: Any, header: str) -> None:
    from pyarrow import compute

    ends = compute.min_max(found).as_py()
    for end in ends.values():
        if end is not None and abs(end) > EXACT_INTEGERS:
            raise UsageError(f"{header}: {end} is beyond ±2^53, where whole numbers lose digits")


def _check_size(values: Floats, header: str, first_row: int) -> None:
    bad = np.abs(values) > LARGEST  # a NaN is missing, and not above anything
    if bad.any():
        row = int(np.argmax(bad))
        reason = "infinite" if np.isinf(values[row]) else f"beyond ±{LARGEST:g}"
        raise UsageError(f"{header}: row {first_row + row + 1}: {values[row]:g} is {reason}")
