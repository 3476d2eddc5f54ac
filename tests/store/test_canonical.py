"""Canonical JSON: the fast writer and the reference writer agree, or both refuse."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.store.canonical import canonical, parse
from harness.store.errors import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-7, 1e-3) | st.floats(-100.0, 100.0) | st.floats(1e14, 1e17)
    | st.integers(-30, 30).map(lambda power: 10.0**power),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@settings(deadline=None)
@given(JSON)
def test_the_fast_way_to_canonical_json_writes_the_same_bytes(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises(UsageError):
            canonical(value)
    else:
        assert canonical(value) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 2**53, -(2**53)])
def test_what_is_no_number_of_json_is_refused(value: float) -> None:
    for odd in (value, [0.5, {"deep": value}]):
        with pytest.raises(UsageError, match="no canonical JSON form"):
            canonical(odd)


@settings(deadline=None)
@given(JSON)
def test_what_is_written_is_read_back_shared_or_not(value: Any) -> None:
    try:
        data = canonical(value)
    except UsageError:
        return
    assert parse(data) == parse(data, share=True)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(
    "data", [b'{"a":1,"b":2,"a":1}', b'{"x":[{"a":1,"a":1}]}', b"NaN", b"[Infinity]", b"1e999",
             b'"\xff"', b"\xef\xbb\xbf1", b"[1", b"[" * 100_000],
)  # fmt: skip
def test_reading_is_strict_shared_or_not(data: bytes, share: bool) -> None:
    with pytest.raises(ValueError):
        parse(data, share=share)


def test_a_key_that_appears_twice_is_named() -> None:
    with pytest.raises(ValueError, match="key 'a' appears twice"):
        parse(b'{"a":1,"b":2,"a":1}')
