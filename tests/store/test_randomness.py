"""Streams are functions of label and digests, unbiased, and never drift between releases."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.store.canonical import canonical
from harness.store.errors import Exit, UsageError, worst
from harness.store.randomness import Stream, derive


def test_streams_are_pinned() -> None:
    stream = Stream("pin", "a", "b")
    assert [stream.below(1000) for _ in range(6)] == [671, 388, 385, 54, 263, 936]
    assert stream.shuffled("abcdef") == list("febcad")


def test_parts_are_framed() -> None:
    assert derive("x", "ab", "c") != derive("x", "a", "bc")


def test_shuffles_are_uniform() -> None:
    stream = Stream("uniform")
    counts = Counter("".join(stream.shuffled("abc")) for _ in range(6000))
    assert len(counts) == 6
    assert all(850 < count < 1150 for count in counts.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, "\ud800", {1: 2}, object()])
def test_values_without_one_spelling_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match="canonical"):
        canonical({"v": value})


def test_the_worst_exit_code_follows_the_contract() -> None:
    order = [Exit.CHANGED, Exit.INCOMPLETE, Exit.VOID, Exit.DEVIATED, Exit.UNANCHORED,
             Exit.PREDICTION_FAILED]  # fmt: skip
    for index, code in enumerate(order):
        assert worst(list(reversed(order[index:]))) == code
    assert worst([]) == Exit.DONE
