"""The quick look over raw bytes finds whatever the slow way finds, however JSON spells it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.run import privacy
from harness.store.canonical import canonical

NAMES = ("lab-42", "ada", "zoë", 'o"neil')
PIECES = st.sampled_from(
    [
        *NAMES, "/", "//", "\\", "\n", "\t", "\"", " ", "é", "a", "B7", "_", ".", ":", "@", "~",
        "-",
        "C:\\x", "/home/x", "/a/b", "~/.cache/x", "file://", "https://", "https://u:p@h", "/simple",
        "git+ssh://x/y", "<", "'", "\u2028", "\x00", "n", "/é/ü", "ada\nx", "x\nada", "adam",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=8)
KEYS = st.sampled_from(["reason", "text", "arm", "key", "info", "plan"]) | TEXTS
VALUES = st.recursive(
    TEXTS | st.integers(-5, 5) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(autouse=True, scope="module")
def known_names() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privacy, "_names", lambda: NAMES)
        yield


def spellings(value: Any) -> list[bytes]:
    """The same value as the journal writes it, and as others may."""
    ascii_only = json.dumps(value)
    return [
        canonical(value),
        ascii_only.encode(),
        json.dumps(value, ensure_ascii=False, indent=1).encode(),
        ascii_only.replace("/", "\\/").encode(),
        ascii_only.replace("ada", "\\u0061da").replace(":\\\\", "\\u003a\\\\").encode(),
    ]


@settings(deadline=None, max_examples=400)
@given(VALUES)
@example({"reason": "x\nada"})
@example({"reason": "ada\n"})
@example({"reason": "C:\\ada"})
@example({"reason": "see /é/x"})
@example({"deep": [{"er": ["pip --index file://x"]}]})
def test_the_quick_look_misses_nothing_that_the_slow_way_finds(value: Any) -> None:
    if list(privacy.leaks(value)):
        assert all(map(privacy.may_leak, spellings(value)))


@pytest.mark.parametrize(
    "value",
    [
        {"text": "one\n#### 5\t\"quoted\"", "arm": "pristine"},
        {"reason": "and/or, adam, canada, 1/2", "at": "2026-01-01T00:00:00.000000Z"},
        {"device": "é ü", "path": "conf/plan.yaml"},
    ],
)  # fmt: skip
def test_a_common_record_is_not_looked_at_twice(value: Any) -> None:
    assert not list(privacy.leaks(value))
    assert not privacy.may_leak(canonical(value))
