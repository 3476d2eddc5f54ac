"""The cost of a pass: what was put in comes out, and where nothing can be told it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import analysis as st

RNG = np.random.default_rng(7)
PASSES = RNG.integers(1, 50, 40)
LOOPS = PASSES * RNG.choice([1, 32], 40)
TOKENS = LOOPS * RNG.choice([4, 20], 40)


def seconds(per_pass: float, per_loop: float, per_token: float, noise: float = 0.0) -> Any:
    exact = 1e-6 * (per_pass * PASSES + per_loop * LOOPS + per_token * TOKENS)
    return exact * np.exp(noise * RNG.standard_normal(40))


def fitted(*given: Any) -> st.PassCost:
    found = st.pass_cost(*given)
    assert isinstance(found, st.PassCost)
    return found


@pytest.mark.parametrize("parts", [(50.0, 200.0, 9.0), (0.0, 3.0, 70.0), (900.0, 1.0, 0.0)])
def test_exact_times_give_the_parts_back(parts: tuple[float, float, float]) -> None:
    found = fitted(PASSES, LOOPS, TOKENS, seconds(*parts))
    got = (found.per_pass_us, found.per_loop_pass_us, found.per_token_loop_us)
    assert got == pytest.approx(parts, rel=1e-6, abs=1e-6)
    assert (found.r2, found.visits) == (pytest.approx(1.0), 40)


def test_noise_moves_them_little_and_no_part_falls_below_zero() -> None:
    found = fitted(PASSES, LOOPS, TOKENS, seconds(0.0, 200.0, 9.0, noise=0.02))
    assert found.per_pass_us >= 0
    assert found.per_loop_pass_us == pytest.approx(200.0, rel=0.05)
    assert found.per_token_loop_us == pytest.approx(9.0, rel=0.05)
    assert 0.98 < found.r2 < 1


def test_all_visits_count_alike_whatever_their_length() -> None:
    slow = seconds(50.0, 200.0, 9.0)
    slow[np.argmax(slow)] *= 1.1
    found = fitted(PASSES, LOOPS, TOKENS, slow)
    assert found.per_loop_pass_us == pytest.approx(200.0, rel=0.05)


def test_the_ratio_of_a_verifying_pass_follows_from_the_parts() -> None:
    model = st.PassCost(10.0, 20.0, 5.0, 1.0, 8)
    assert model.verify_ratio(batch=2, tokens=5, loops=4) == pytest.approx(
        (10 + 4 * (20 + 10 * 5)) / (10 + 4 * (20 + 2 * 5))
    )
    assert st.PassCost(0.0, 0.0, 0.0, 0.0, 8).verify_ratio(1, 2, 3) == float("inf")


def test_what_cannot_be_told_is_said() -> None:
    few = st.pass_cost([1] * 7, [1] * 7, [1] * 7, [1.0] * 7)
    same = st.pass_cost(PASSES, PASSES, PASSES, seconds(1, 1, 1))
    still = st.pass_cost(PASSES, LOOPS, TOKENS, [0.0] * 40)
    for found, reason in ((few, "7 visits"), (same, "doesn't vary"), (still, "took no time")):
        assert isinstance(found, st.NotEstimable)
        assert reason in found.reason
    with pytest.raises(st.AnalysisError, match="lengths differ"):
        st.pass_cost(PASSES, LOOPS, TOKENS, [1.0])
    with pytest.raises(st.AnalysisError, match="below 0"):
        st.pass_cost(-PASSES, LOOPS, TOKENS, seconds(1, 1, 1))
