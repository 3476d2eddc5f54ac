"""McNemar, tokens per verification against a model, the bars, and the chance under no effect."""

from __future__ import annotations

import random

import numpy as np
import pytest

from harness.analysis import Interval
from harness.measure.acceptance import places, predicted_tokens
from harness.measure.bars import bars, positions
from harness.measure.chance import chance_if_no_effect
from harness.measure.estimates import measure
from harness.measure.scored import Scored, scored
from harness.plan.schema import Estimand, Prediction
from tests.measure.journal import demo_plan, journal, order_of, trial


def data_of(records: list[dict[str, object]]) -> Scored:
    return scored(records, order_of(demo_plan()))


def drafting(item: int, acceptance: float, drafts: int, source: random.Random) -> dict[str, object]:
    """An item of 40 verifications whose drafts are kept independently."""
    counters = {f"{word}_{k}": 0 for k in range(1, drafts + 1) for word in ("tried", "kept")}
    tokens = 1
    for _ in range(40):
        tokens += 1
        for place in range(1, drafts + 1):
            counters[f"tried_{place}"] += 1
            if source.random() >= acceptance:
                break
            counters[f"kept_{place}"] += 1
            tokens += 1
    counters["passes"] = 40
    return trial(f"i{item}", "patched", 1, item % 16, token_ids=[1] * tokens, counters=counters)


@pytest.mark.parametrize(("acceptance", "drafts"), [(0.9, 4), (0.6, 6), (1.0, 3)])
def test_independent_drafts_give_the_models_tokens_per_verification(
    acceptance: float, drafts: int
) -> None:
    source = random.Random(7)
    data = data_of([drafting(item, acceptance, drafts, source) for item in range(60)])
    estimand = Estimand(kind="model_ratio", of="tokens_per_verification", cluster="item")
    found = measure(estimand, data, range(16), "0.95")
    assert found.estimate == pytest.approx(1.0, abs=0.02)
    assert isinstance(found.interval, Interval)
    assert found.interval.low <= 1.0 <= found.interval.high


def test_drafts_that_fail_in_clumps_break_the_model() -> None:
    source = random.Random(3)
    rates = [1.0, 0.2]
    data = data_of([drafting(item, rates[item % 2], 6, source) for item in range(60)])
    estimand = Estimand(kind="model_ratio", of="tokens_per_verification", cluster="item")
    found = measure(estimand, data, range(16), "0.95")
    assert isinstance(found.interval, Interval)
    assert not found.interval.low <= 1.0 <= found.interval.high


def test_the_model_is_the_geometric_series() -> None:
    for acceptance in (0.0, 0.5, 0.8, 1.0):
        expected = sum(acceptance**k for k in range(5))
        assert predicted_tokens(acceptance, 4) == pytest.approx(expected)
    assert predicted_tokens(np.array([0.7932]), 4)[0] == pytest.approx(3.317, abs=1e-3)


def test_places_add_up_over_trials() -> None:
    one = trial("a", "x", 1, 0, counters={"tried_1": 3, "kept_1": 2, "passes": 9})
    assert places([one, one]) == {1: {"tried": 6, "kept": 4}}


def test_mcnemar_is_a_p_value_on_first_visits() -> None:
    records = []
    for item in range(20):
        wrong = {"status": "wrong", "answer": "2"}
        records.append(trial(f"i{item}", "pristine", 1, 0))
        records.append(trial(f"i{item}", "pristine", 2, 0, score=wrong))
        right = {"status": "right", "answer": "1"}
        score = wrong if item < 8 else right
        records.append(trial(f"i{item}", "patched", 1, 0, score=score))
    estimand = Estimand(kind="mcnemar", of="correct", cluster="item")
    found = measure(estimand, data_of(records), range(16), "0.95")
    assert found.estimate == pytest.approx(2 * 0.5**8 - 0.5**8, rel=1e-9)


def test_the_bars_show_the_noise_the_claim_and_the_known_bad() -> None:
    plan = demo_plan()
    records = journal(plan, {"pristine": 3.0, "patched": 2.0})
    aa = {"interval": {"estimate": 0.0, "low": -0.01, "high": 0.01}, "delta": 0.1, "ok": True}
    data = data_of(records)
    found = bars(plan, data, ("pristine", "patched"), aa)
    assert [bar["label"] for bar in found["time"]] == ["A/A", "A/B"]
    assert found["time"][1]["estimate"] == pytest.approx(1.5, rel=0.01)
    assert found["accuracy"][0]["estimate"] == 0
    assert len(positions(data, ["pristine", "patched"], "decode_cpu_seconds")) == 8
    empty = bars(plan, data_of([]), ("pristine", "patched"), None)
    assert all("not_estimable" in bar for part in empty.values() for bar in part)


def claim(region: tuple[float | None, float | None], **estimand: object) -> Prediction:
    return Prediction(
        id="P",
        claim="",
        estimand=Estimand(**{"of": "correct", "cluster": "item", **estimand}),  # type: ignore[arg-type]
        region=region,
        family="secondary",
        confidence=0.5,
        min_clusters=2,
    )


def test_a_claim_of_gain_has_no_chance_under_no_effect_and_a_claim_of_no_loss_has_its_power() -> (
    None
):
    plan = demo_plan()
    gain = claim((1.5, None), kind="log_ratio", of="decode_seconds", cluster="block")
    none = claim((-0.5, None), kind="mean_diff")
    tight = claim((-0.001, None), kind="mean_diff")
    assert chance_if_no_effect(plan, gain, 1) == 0
    assert chance_if_no_effect(plan, none, 1) == pytest.approx(1)
    chance = chance_if_no_effect(plan, tight, 1)
    assert chance is not None
    assert chance < 0.1
    rate = claim((0.5, None), kind="rate", of="accepted", per="drafted")
    assert chance_if_no_effect(plan, rate, 1) is None
