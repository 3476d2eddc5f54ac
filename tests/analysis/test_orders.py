"""Orders balance what they promise, and the diagnostics find what was put in."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from harness import analysis as st

KEY = bytes(range(16))


@settings(deadline=None)
@given(some.integers(2, 12))
def test_williams_rows_balance_positions_and_neighbours(arms: int) -> None:
    rows = st.williams(arms)
    squares = 1 if arms % 2 == 0 else 2
    assert len(rows) == squares * arms
    assert all(sorted(row) == list(range(arms)) for row in rows)
    for position in range(arms):
        seen = Counter(row[position] for row in rows)
        assert set(seen.values()) == {squares}
    neighbours = Counter(pair for row in rows for pair in pairwise(row))
    assert set(neighbours.values()) == {squares}
    assert len(neighbours) == arms * (arms - 1)


@settings(deadline=None)
@given(some.integers(1, 60), some.binary(min_size=16, max_size=16))
def test_half_of_the_blocks_go_abba_and_half_baab(blocks: int, key: bytes) -> None:
    orders = st.abba_baab(key, blocks)
    seen = Counter(orders)
    assert abs(seen[st.ABBA] - seen[st.BAAB]) == blocks % 2
    assert orders == st.abba_baab(key, blocks)
    if blocks % 2 == 0:
        assert st.order_bias(orders, [5, 1, 7, 2]) == pytest.approx(0)


@settings(deadline=None)
@given(some.integers(2, 6), some.integers(1, 40))
def test_williams_rows_are_used_equally_often(arms: int, blocks: int) -> None:
    seen = Counter(st.williams_orders(KEY, arms, blocks))
    used = [seen[row] for row in st.williams(arms)]
    assert max(used) - min(used) <= 1
    assert sum(used) == blocks


def test_thue_morse_of_eight_cancels_quadratic_drift() -> None:
    assert "".join("AB"[arm] for arm in st.thue_morse(8)) == "ABBABAAB"
    positions = np.arange(8.0)
    assert st.order_bias([st.thue_morse(8)], positions**2) == 0
    assert st.order_bias([st.ABBA], np.arange(4.0) ** 2) == -2
    assert st.order_bias([(0, 1, 0, 1)], np.arange(4.0)) == 1


def visits(
    orders: tuple[tuple[int, ...], ...], seed: int, noise: float = 0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Blocks, positions, arms, what came before, and values with block shocks and an arm effect."""
    generator = np.random.Generator(np.random.Philox(seed))
    size = len(orders[0])
    block = np.repeat(np.arange(len(orders)), size)
    position = np.tile(np.arange(size), len(orders))
    arm = np.array(orders).ravel()
    before = np.where(position == 0, -1, np.roll(arm, 1))
    shocks = generator.normal(0, 0.3, len(orders))
    value = shocks[block] + 0.25 * arm + noise * generator.normal(size=len(block))
    return block, position, arm, before, value


@pytest.mark.parametrize("arms", [2, 3, 4])
def test_diagnostics_find_drift_first_run_and_carry_over(arms: int) -> None:
    orders = st.abba_baab(KEY, 60) if arms == 2 else st.williams_orders(KEY, arms, 60)
    block, position, arm, before, value = visits(orders, arms)
    carried = np.where(before == 1, 0.02, 0.0)
    value = value + 0.015 * position + 0.08 * (position == 0) + carried
    found = st.order_diagnostics(block, position, arm, value)
    assert isinstance(found.first_run, st.Interval)
    assert found.first_run.low < 0.08 < found.first_run.high
    assert isinstance(found.drift, st.Interval)
    assert found.drift.low < 0.015 < found.drift.high
    carry = found.carry_over[0]
    assert isinstance(carry, st.Interval)
    assert carry.low < 0.02 < carry.high
    assert len(found.carry_over) == arms - 1


@pytest.mark.parametrize("arms", [2, 4])
def test_pure_drift_is_found_to_the_slope(arms: int) -> None:
    orders = st.abba_baab(KEY, 40) if arms == 2 else st.williams_orders(KEY, arms, 40)
    block, position, arm, _, value = visits(orders, 7)
    found = st.order_diagnostics(block, position, arm, value + 0.015 * position)
    assert isinstance(found.drift, st.Interval)
    assert found.drift.low < 0.015 < found.drift.high
    assert found.drift.high - found.drift.low < 0.01


def test_quiet_data_raise_no_alarm_more_often_than_the_level() -> None:
    alarms = 0
    for seed in range(200):
        block, position, arm, _, value = visits(st.abba_baab(KEY, 20), seed, noise=0.05)
        drift = st.order_diagnostics(block, position, arm, value).drift
        assert isinstance(drift, st.Interval)
        alarms += not drift.low <= 0 <= drift.high
    assert 2 <= alarms <= 22


def test_pure_abba_still_tells_drift_from_a_slow_first_visit() -> None:
    block, position, arm, _, value = visits((st.ABBA,) * 30, 4)
    value = value + 0.015 * position + 0.08 * (position == 0)
    found = st.order_diagnostics(block, position, arm, value)
    assert isinstance(found.drift, st.Interval)
    assert found.drift.low < 0.015 < found.drift.high
    assert isinstance(found.first_run, st.Interval)
    assert found.first_run.low < 0.08 < found.first_run.high
    assert isinstance(found.carry_over[0], st.NotEstimable)


def test_what_the_order_confounds_is_not_estimable() -> None:
    orders = ((0, 1),) * 8
    block, position, arm, _, value = visits(orders, 1)
    found = st.order_diagnostics(block, position, arm, value)
    assert found.drift == st.NotEstimable("the order confounds it with another effect")
    assert isinstance(found.carry_over[0], st.NotEstimable)
    assert isinstance(st.arm_and_drift([0, 1], [1.0, 2.0]), st.NotEstimable)


def test_positions_must_be_complete() -> None:
    for position in ([0, 1, 1, 3], [1, 2, 3, 4], [0, 1, 2, 4]):
        with pytest.raises(st.AnalysisError, match="each once"):
            st.order_diagnostics(["b"] * 4, position, [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0])


@settings(max_examples=25, deadline=None)
@given(some.randoms(use_true_random=False))
def test_diagnostics_do_not_depend_on_the_order_of_rows(random: object) -> None:
    block, position, arm, _, value = visits(st.abba_baab(KEY, 6), 3)
    order = list(range(len(block)))
    random.shuffle(order)  # type: ignore[attr-defined]
    left = st.order_diagnostics(block, position, arm, value)
    right = st.order_diagnostics(block[order], position[order], arm[order], value[order])
    assert left == right


def test_the_noise_floor_of_times() -> None:
    generator = np.random.Generator(np.random.Philox(5))
    task = generator.lognormal(0, 1, 300)
    first, second = (task * np.exp(0.05 * generator.normal(size=300)) for _ in "ab")
    noise = st.repeat_noise(first, second)
    assert isinstance(noise, st.RepeatNoise)
    assert noise.spread == pytest.approx(0.05, rel=0.15)
    assert isinstance(noise.ratio, st.Interval)
    assert noise.ratio.low < 1 < noise.ratio.high
    louder = st.repeat_noise(first, second * np.exp(0.2 * generator.normal(size=300)))
    assert isinstance(louder, st.RepeatNoise)
    assert st.variance_ratio(noise, louder) > 4  # type: ignore[operator]


def test_agreement_stands_beside_its_floor() -> None:
    between, floor = [1] * 8 + [0] * 12, [1] * 16 + [0] * 4
    found = st.agreement(between, floor, floor)
    assert isinstance(found.between, st.Interval)
    assert found.between.estimate == 0.4
    assert isinstance(found.excess, st.Interval)
    assert found.excess.estimate == pytest.approx(-0.4)
    assert found.excess.high < 0
    assert st.agreement(between).excess is None
