"""A rule that cannot turn both ways is refused before it can be frozen (T28)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.prereg.turning import check_turning
from harness.store.errors import UsageError
from harness.store.paths import Project
from tests.prereg import study as build


def check(blocks: int = 12, items: int = 4, attempt: int = 1, **changes: Any) -> None:
    schedule = {"design": "abba_baab", "block_items": items, "blocks": blocks}
    one = build.simple(
        "confirm_a",
        schedule=schedule,
        partitions={"source": "arithmetic", "seed": "7", "confirm": blocks * items},
        predictions=[build.prediction(**{"min_clusters": 2, **changes})],
    )
    check_turning(one, attempt)


AGREEMENT = {"kind": "agreement", "of": "tokens", "cluster": "item"}
ACCURACY = {"kind": "mean_diff", "of": "correct", "cluster": "item"}
TOKENS = {"kind": "mean_diff", "of": "tokens", "cluster": "block"}
RATE = {"kind": "rate", "of": "accepted", "per": "drafted", "cluster": "block"}
BYTES = {"kind": "ratio_of_sums", "of": "cache_bytes", "cluster": "item"}


@pytest.mark.parametrize(
    ("estimand", "region"),
    [
        ({}, (1.1, None)),
        ({}, (None, 0.9)),
        ({}, (0.9, 1.1)),
        (AGREEMENT, (0.9, None)),
        (ACCURACY, (-0.1, None)),
        (ACCURACY, (-0.2, 0.2)),
        (TOKENS, (-2.0, 2.0)),
        (TOKENS, (None, -5.0)),
        (RATE, (0.5, None)),
        (RATE, (0.2, 0.9)),
        (BYTES, (3.5, 4.5)),
    ],
)
@pytest.mark.parametrize("rule", ["ci", "point"])
def test_a_rule_that_can_turn_is_accepted(estimand: Any, region: Any, rule: str) -> None:
    check(estimand=estimand, region=region, rule=rule)


@pytest.mark.parametrize(
    ("estimand", "region"),
    [
        ({}, (0.0, None)),
        ({}, (-3.0, None)),
        (AGREEMENT, (0.0, 1.0)),
        (AGREEMENT, (None, 1.0)),
        (ACCURACY, (-1.0, None)),
        (RATE, (None, 1.0)),
        (RATE, (0.0, None)),
    ],
)
def test_a_rule_that_can_never_fail_is_refused(estimand: Any, region: Any) -> None:
    with pytest.raises(UsageError, match=r"predictions\.P1: region .* can never be failed"):
        check(estimand=estimand, region=region)


@pytest.mark.parametrize(
    ("estimand", "region", "blocks"),
    [
        (AGREEMENT, (0.999, None), 12),
        (ACCURACY, (-0.005, 0.005), 12),
        (RATE, (1.5, None), 12),
        ({}, (None, -1.0), 12),
        ({}, (0.99, 1.01), 2),
    ],
)
def test_a_rule_that_can_never_hold_is_refused(estimand: Any, region: Any, blocks: int) -> None:
    with pytest.raises(UsageError, match="can never be held with"):
        check(estimand=estimand, region=region, blocks=blocks)


def test_more_clusters_make_a_strict_claim_possible() -> None:
    with pytest.raises(UsageError, match="never be held with 48 clusters"):
        check(estimand=AGREEMENT, region=(0.97, None))
    check(estimand=AGREEMENT, region=(0.97, None), blocks=50)


def test_a_later_attempt_has_less_to_spend() -> None:
    check(estimand=AGREEMENT, region=(0.94, None))
    with pytest.raises(UsageError, match="can never be held"):
        check(estimand=AGREEMENT, region=(0.94, None), attempt=50)


def test_freeze_refuses_it(project: Project) -> None:
    weak = build.prediction(region=(0.0, None))
    with pytest.raises(UsageError, match=r"predictions\.P1"):
        build.freeze_plan(project, build.simple("confirm_a", predictions=[weak]))
    assert not project.lock("confirm_a").exists()
