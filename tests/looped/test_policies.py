"""The pure function behind every policy."""

from __future__ import annotations

import pytest
import torch

from harness.looped.errors import PolicyError
from harness.looped.policies import (
    Policy,
    compress,
    deepest,
    every_nth,
    first_loops,
    full,
    last_loops,
    near_mask,
    per_head,
    ripe,
    second_plane,
    sinks_ripe,
)
from harness.looped.published import PUBLISHED

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


def test_the_ones_that_did_not_help() -> None:
    assert _planes(every_nth(3), 3, 1) == [2, 2, 2, 1]
    assert _planes(every_nth(3), 3, 3) == [5, 5, 5, 3]
    assert _planes(every_nth(3), 3, 5) == [5, 5, 5, 5]
    assert _planes(sinks_ripe(2, 1), 5, 3) == [3, 3, 8, 8, 3, 3]
    assert _planes(second_plane(4), 3, 3) == [4, 4, 4, 3]
    assert _planes(second_plane(4, 1), 3, 5) == [8, 8, 5, 5]
    by_head = [
        [per_head((0, 2)).plane(query=3, loop=3, key=k, loops=R, head=h) for k in range(4)]
        for h in (0, 1)
    ]
    assert by_head == [[8, 8, 8, 3], [8, 3, 3, 3]]


def _upstream_slots(slots: int, loops: int) -> dict[int, int]:
    """Which loop's keys a finished position holds in each slot: later loops overwrite."""
    held = {}
    for index in range(2, 2 + 4 * loops):
        held[2 + (index - 2) % slots] = 1 + (index - 2) // 4
    return held


@pytest.mark.parametrize("slots", [4, 8, 12, 24, 64])
def test_compress_is_upstreams_slot_arithmetic(slots: int) -> None:
    """What loop r, layer j finds in its slot, for a finished position, on 2/4/2."""
    held = _upstream_slots(slots, R)
    for loop in range(1, R + 1):
        for layer in range(4):
            slot = 2 + (4 * (loop - 1) + layer) % slots
            plane = compress(slots).plane(query=1, loop=loop, key=0, loops=R)
            assert held[slot] == plane
    assert compress(slots).dense_planes(R) == sorted(set(held.values()))


def test_compress_fits_two_and_four_layers_only() -> None:
    compress(8).check(PUBLISHED["huginn_0125"])
    compress(8).check(PUBLISHED["raven_llama_2_4_2"])
    for name in ("raven_llama_1b", "raven_tinyllama", "ouro_1_4b"):
        with pytest.raises(PolicyError, match="right for 2 prelude and 4 core layers only"):
            compress(8).check(PUBLISHED[name])
    with pytest.raises(PolicyError, match="found 6 slots, expected a multiple of 4"):
        compress(6)


MANY = (
    full(), deepest(), ripe(3), first_loops(3), last_loops(3), every_nth(3), sinks_ripe(2, 3),
    second_plane(4, 2), per_head((0, 5)), compress(8),
)  # fmt: skip


@pytest.mark.parametrize("policy", MANY, ids=lambda p: p.label)
def test_near_mask_and_far_plane_say_what_the_function_says(policy: Policy) -> None:
    places = torch.arange(9)
    near = near_mask(policy, places, places)
    for head in (0, 1):
        for query, key in ((q, k) for q in range(9) for k in range(q + 1)):
            for loop in range(1, R + 1):
                is_near = near[min(head, near.shape[0] - 1), query, key]
                expected = loop if is_near else policy.far_plane(loop, R)
                assert expected == policy.plane(query=query, loop=loop, key=key, loops=R, head=head)
    kept = policy.dense_planes(R)
    assert all(policy.far_plane(plane, R) == plane for plane in kept)


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
    assert [p.label for p in (sinks_ripe(2, 5), second_plane(3, 4), per_head((1, 2)))] == [
        "sinks_ripe(2,5)",
        "second_plane(3,4)",
        "per_head(1,2)",
    ]


def test_impossible_values_are_refused() -> None:
    with pytest.raises(PolicyError, match="window: found -1, expected at least 0"):
        ripe(-1)
    with pytest.raises(PolicyError, match="first_loops: found 0"):
        first_loops(0)
    with pytest.raises(PolicyError, match="per_head: found no windows"):
        per_head(())
    with pytest.raises(PolicyError, match="query 1, key 2"):
        full().plane(query=1, loop=1, key=2, loops=R)
