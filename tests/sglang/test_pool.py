"""The pool's formula against the formula of our own caches, and its inverse."""

from __future__ import annotations

import pytest

from harness.backends.sglang.pool import padding_bytes, pool_bytes, tokens_within
from harness.looped.memory import cache_bytes
from harness.looped.policies import deepest, full, ripe
from harness.looped.published import PUBLISHED

HUGINN = PUBLISHED["huginn_0125"]


@pytest.mark.parametrize("name", ["huginn_0125", "raven_llama_1b"])
@pytest.mark.parametrize(
    ("policy", "window", "rule"),
    [("full", 0, full()), ("deepest", 0, deepest()), ("ripe", 16, ripe(16))],
)
def test_one_request_takes_what_our_own_cache_holds(name, policy, window, rule) -> None:
    config = PUBLISHED[name]
    found = pool_bytes(
        config, policy=policy, window=window, loops=32, tokens=808, requests=1, page_size=1,
        itemsize=2,
    )  # fmt: skip
    assert found == cache_bytes(config, rule, 808, 32, 2)


def test_the_papers_numbers() -> None:
    same = {"loops": 32, "tokens": 1024, "requests": 1, "page_size": 1, "itemsize": 2}
    assert pool_bytes(HUGINN, policy="full", window=0, **same) == 2_854_748_160
    assert pool_bytes(HUGINN, policy="deepest", window=64, **same) == 173_015_040
    assert pool_bytes(HUGINN, policy="ripe", window=64, **same) == 340_623_360


def test_padding_is_a_page_of_rows_and_one_slot() -> None:
    u = 2 * HUGINN.n_kv_heads * HUGINN.head_dim * 2
    same = {"loops": 32, "itemsize": 2}
    assert padding_bytes(HUGINN, policy="full", window=9, page_size=1, **same) == 132 * u
    assert padding_bytes(HUGINN, policy="deepest", window=9, page_size=16, **same) == 128 * u
    found = padding_bytes(HUGINN, policy="ripe", window=4, page_size=1, **same)
    assert found == (8 + 4 * 31 * 4) * u


@pytest.mark.parametrize("policy", ["full", "deepest", "ripe"])
def test_the_inverse_is_tight(policy: str) -> None:
    same = {"policy": policy, "window": 4, "loops": 8, "page_size": 1, "itemsize": 4}
    budget = 2**31
    tokens = tokens_within(HUGINN, budget, requests=8, **same)

    def total(count: int) -> int:
        held = pool_bytes(HUGINN, tokens=count, requests=8, **same)
        return held + padding_bytes(HUGINN, **same)

    assert total(tokens) <= budget < total(tokens + 1)


def test_a_budget_below_the_rings_is_refused() -> None:
    with pytest.raises(ValueError, match="budget of 1000 bytes"):
        tokens_within(
            HUGINN, 1000, policy="ripe", window=4, loops=8, requests=8, page_size=1, itemsize=4
        )


def test_bad_numbers_are_named() -> None:
    same = {"loops": 32, "tokens": 1, "requests": 1, "page_size": 1, "itemsize": 2}
    with pytest.raises(ValueError, match="policy: found 'some'"):
        pool_bytes(HUGINN, policy="some", window=0, **same)
    with pytest.raises(ValueError, match="window: found -1"):
        pool_bytes(HUGINN, policy="ripe", window=-1, **same)
