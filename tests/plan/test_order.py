"""Orders: balanced, palindromic, and a function of digest and nonce alone."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import analysis
from harness.plan.compose import compose
from harness.plan.order import order_table, williams
from harness.plan.schema import Plan
from harness.store.paths import find_project


def demo(**schedule: object) -> Plan:
    plan = compose(find_project(), "demo_fake").plan
    return plan.model_copy(update={"schedule": plan.schedule.model_copy(update=schedule)})


@given(st.integers(1, 9))
def test_williams_rows_have_each_arm_once_and_each_neighbour_pair_equally_often(k: int) -> None:
    rows = williams([f"a{i}" for i in range(k)])
    assert all(len(set(row)) == k for row in rows)
    assert all(len(set(Counter(column).values())) == 1 for column in zip(*rows, strict=True))
    if k > 1:
        counts = Counter(pair for row in rows for pair in pairwise(row))
        assert len(counts) == k * (k - 1)
        assert len(set(counts.values())) == 1


@pytest.mark.parametrize("k", range(2, 17))
def test_the_order_of_a_plan_is_the_design_that_the_analysis_knows(k: int) -> None:
    """`plan` may import nothing but `store`, so that the rows stand twice."""
    arms = [f"a{i}" for i in range(k)]
    rows = [[arms[place] for place in row] for row in analysis.williams(k)]
    assert williams(arms) == rows


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40), st.integers(0, 3), st.text("0123456789abcdef", min_size=4, max_size=8))
def test_abba_and_baab_are_balanced_and_palindromic(blocks: int, spare: int, nonce: str) -> None:
    plan = demo(blocks=blocks, spare_blocks=spare, launches_per_arm=1)
    table = order_table(plan, "d" * 64, nonce)
    rows = [tuple(visit.arm for visit in block.visits) for block in table.blocks]
    assert all(row == row[::-1] for row in rows)
    counts = Counter(rows)
    assert abs(counts.most_common()[0][1] - (blocks + spare) / 2) <= 1
    assert len(table.spares) == spare


def test_visits_are_numbered_per_arm_and_launches_are_consecutive_segments() -> None:
    table = order_table(demo(blocks=9, launches_per_arm=3), "d" * 64, "00")
    for block in table.blocks:
        assert sorted(v.visit for v in block.visits if v.arm == "pristine") == [1, 2]
        assert [v.position for v in block.visits] == list(range(len(block.visits)))
    launches = [block.visits[0].launch for block in table.planned]
    assert launches == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_items_of_blocks_are_disjoint() -> None:
    table = order_table(demo(blocks=5, spare_blocks=2, block_items=3, launches_per_arm=1), "d", "0")
    items = [item for block in table.blocks for item in block.items]
    assert sorted(items) == list(range(21))


@pytest.mark.parametrize("change", [("e" * 64, "00"), ("d" * 64, "01")])
def test_another_digest_or_nonce_gives_another_order(change: tuple[str, str]) -> None:
    plan = demo(blocks=40, launches_per_arm=1)
    base = order_table(plan, "d" * 64, "00")
    assert base.digest == order_table(plan, "d" * 64, "00").digest
    assert order_table(plan, *change).digest != base.digest


def test_the_order_of_a_given_plan_digest_never_changes() -> None:
    """Pinned: a shipped lock holds this digest, so the derivation may not drift."""
    table = order_table(demo(), "d" * 64, "00")
    assert table.digest == "cb7aee405c081d532591dc970ff7acac0d730479991dcb272203472a752a180e"
