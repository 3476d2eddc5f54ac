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
    | st.floats(allow_nan=False, allow_infinity=False),
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


def test_a_key_that_appears_twice_is_named() -> None:
    with pytest.raises(ValueError, match="key 'a' appears twice"):
        parse(b'{"a":1,"b":2,"a":1}')
