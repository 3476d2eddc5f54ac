"""The pure function behind every policy."""

from __future__ import annotations

import pytest

from harness.looped.errors import PolicyError
from harness.looped.policies import deepest, first_loops, full, last_loops, ripe

R = 8


def _planes(policy: object, query: int, loop: int, prompt: int = 0) -> list[int]:
    return [
        policy.plane(query=query, loop=loop, key=key, loops=R, prompt=prompt)  # type: ignore[attr-defined]
        for key in range(query + 1)
    ]


def test_planes_by_policy() -> None:
    assert _planes(full(), 4, 3) == [3, 3, 3, 3, 3]
    assert _planes(deepest(), 4, 3) == [8, 8, 8, 8, 3]
    assert _planes(ripe(2), 4, 3) == [8, 8, 3, 3, 3]
    assert _planes(ripe(9), 4, 3) == [3, 3, 3, 3, 3]
    assert _planes(first_loops(2), 4, 1) == [1, 1, 1, 1, 1]
    assert _planes(first_loops(2), 4, 5) == [2, 2, 2, 2, 5]
    assert _planes(last_loops(2), 4, 5) == [7, 7, 7, 7, 5]
    assert _planes(last_loops(2), 4, 8) == [8, 8, 8, 8, 8]


def test_a_full_prompt_reads_its_own_planes() -> None:
    assert _planes(ripe(1), 4, 3, prompt=5) == [3, 3, 3, 3, 3]
    assert _planes(ripe(1), 5, 3, prompt=5) == [8, 8, 8, 8, 3, 3]


def test_longest_passes() -> None:
    assert [
        p.longest_pass for p in (full(), deepest(), ripe(7), first_loops(2), last_loops(2))
    ] == [
        None,
        1,
        8,
        None,
        1,
    ]


def test_labels_and_equality() -> None:
    assert deepest() == ripe(0)
    assert [p.label for p in (full(), deepest(), ripe(16), last_loops(2))] == [
        "full",
        "deepest",
        "ripe(16)",
        "last_loops(2)",
    ]


def test_impossible_values_are_refused() -> None:
    with pytest.raises(PolicyError, match="window: found -1, expected at least 0"):
        ripe(-1)
    with pytest.raises(PolicyError, match="first_loops: found 0"):
        first_loops(0)
    with pytest.raises(PolicyError, match="query 1, key 2"):
        full().plane(query=1, loop=1, key=2, loops=R)
