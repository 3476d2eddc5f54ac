"""From records to verdicts: what counts, what voids, and what is only described."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from harness.measure.cost import fit_cost
from harness.measure.divergence import compare, first_divergence
from harness.measure.evaluate import Scope, evaluate
from harness.measure.scored import scored
from harness.plan.predictions import confidence_level
from harness.plan.schema import Plan
from harness.store.errors import UsageError
from tests.measure.journal import Json, demo_plan, journal, order_of, trial, visit

SPEEDS = {"pristine": 3.0, "patched": 2.0}
SCOPE = Scope("0001-x", "unregistered", 1, None, "cpu: test")


def analyse(plan: Plan, records: list[Json], scope: Scope = SCOPE) -> Json:
    found = evaluate(plan, order_of(plan), records, scope)
    json.dumps(found, allow_nan=False)
    return found


def words(found: Json) -> dict[str, str]:
    return {one["id"]: one["word"] for one in found["verdicts"]}


def test_a_clean_run_gives_the_ratio_that_was_put_in() -> None:
    plan = demo_plan()
    found = analyse(plan, journal(plan, SPEEDS))
    speed = found["verdicts"][0]
    assert speed["low"] < 1.5 < speed["high"]
    assert math.isclose(speed["estimate"], 1.5, rel_tol=0.01)
    assert words(found) == {"P1": "held", "P2": "held"}
    assert found["blocks"]["timed"] == 16


def test_an_interrupted_block_keeps_its_answers_and_loses_its_times() -> None:
    plan = demo_plan()
    records = [*journal(plan, SPEEDS), {"kind": "block", "block": 3, "event": "interrupted"}]
    data = scored(records, order_of(plan))
    assert 3 not in data.blocks.timing
    assert 3 in data.blocks.quality


def test_above_the_limit_interrupted_blocks_void_timing_but_not_quality() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    records += [{"kind": "block", "block": b, "event": "interrupted"} for b in (1, 2)]
    found = analyse(plan, records)
    assert words(found) == {"P1": "void", "P2": "held"}
    assert "interrupted" in found["verdicts"][0]["reasons"][0]


def test_a_spare_replaces_an_interrupted_block() -> None:
    schedule = demo_plan().schedule.model_copy(update={"spare_blocks": 1})
    limits = demo_plan().limits.model_copy(update={"interrupted_share": 0.1})
    plan = demo_plan(schedule=schedule, limits=limits)
    records = journal(plan, SPEEDS)
    records.append({"kind": "block", "block": 3, "event": "interrupted"})
    assert words(analyse(plan, records))["P1"] == "void"
    records.append({"kind": "block", "block": 16, "event": "spare", "replaces": 3})
    for step in order_of(plan).blocks[16].visits:
        records.append(visit(16, step.position, step.arm, step.visit, SPEEDS[step.arm]))
    records.append({"kind": "block", "block": 16, "event": "finished"})
    found = analyse(plan, records)
    assert words(found)["P1"] == "held"
    assert found["blocks"]["timed"] == 16


def test_voiding_what_hurts_makes_it_inconclusive() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    for record in records:
        hurt = record["kind"] == "visit" and record["key"]["block"] == 5
        if hurt and record["key"]["arm"] == "patched":
            for name in record["timing"]:
                record["timing"][name] *= 400
    assert words(analyse(plan, records))["P1"] != "held"
    records.append({"kind": "block", "block": 5, "event": "void", "reason": "limit"})
    found = analyse(plan, records)["verdicts"][0]
    assert found["word"] == "inconclusive"
    assert found["without_voids"] != "held"


def test_more_voided_blocks_than_allowed_void_everything() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    records += [{"kind": "block", "block": b, "event": "void", "reason": "x"} for b in (5, 6)]
    assert set(words(analyse(plan, records)).values()) == {"void"}


def test_an_aa_control_outside_its_band_voids_everything() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    records.append({"kind": "aa", "interval": {"estimate": 0.2, "low": 0.1, "high": 0.3},
                    "delta": 0.1, "ok": False})  # fmt: skip
    assert set(words(analyse(plan, records)).values()) == {"void"}


def test_no_records_at_all_are_void_and_never_nan() -> None:
    found = analyse(demo_plan(), [])
    assert set(words(found).values()) == {"void"}


def test_unequal_token_counts_are_named_as_a_threat() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    for record in records:
        if record["kind"] == "visit" and record["key"]["arm"] == "patched":
            record["tokens"] = 5
    assert any("same work" in threat for threat in analyse(plan, records)["threats"])


def test_times_out_counts_as_wrong_and_with_its_time() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    for record in records:
        if record["kind"] == "trial" and record["key"]["item"] == "i0":
            record["status"], record["score"] = "timeout", {"status": "no_answer", "answer": None}
    found = analyse(plan, records)
    assert found["arms"]["patched"]["accuracy"]["k"] == 31
    assert found["arms"]["patched"]["status"] == {"ok": 31, "timeout": 1}


def test_levels_follow_from_the_family_and_shrink_with_attempts() -> None:
    plan = demo_plan()
    primary, secondary = plan.predictions
    assert confidence_level(plan, primary, 1) == "0.9"
    assert confidence_level(plan, primary, 2) == "0.95"
    assert confidence_level(plan, secondary, 2) == "0.9"
    both = demo_plan(predictions=[primary, primary.model_copy(update={"id": "P9"})])
    assert confidence_level(both, primary, 1) == "0.95"


def test_a_quantity_that_was_never_measured_is_refused_by_name() -> None:
    plan = demo_plan()
    prediction = plan.predictions[1]
    estimand = prediction.estimand.model_copy(update={"kind": "mean_diff", "of": "happiness"})
    odd = demo_plan(predictions=[prediction.model_copy(update={"estimand": estimand})])
    with pytest.raises(UsageError, match="happiness is not measured"):
        analyse(odd, journal(odd, SPEEDS))


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [1], 0)],
)
def test_the_first_divergence_includes_a_shorter_end(
    left: list[int], right: list[int], where: int | None
) -> None:
    assert first_divergence(left, right) == where


def test_a_strict_prefix_is_not_the_same_answer() -> None:
    plan = demo_plan()
    records = journal(plan, SPEEDS)
    for record in records:
        if record["kind"] == "trial" and record["key"]["arm"] == "patched":
            record["token_ids"] = [1, 2]
    assert words(analyse(plan, records))["P2"] == "failed"


def test_divergences_at_near_ties_are_counted_apart() -> None:
    plan = demo_plan()
    records = [
        trial("a", "pristine", 1, 0, near_ties=[[1, 1e-6]]),
        trial("a", "patched", 1, 0, token_ids=[1, 9, 3]),
        trial("b", "pristine", 1, 0),
        trial("b", "patched", 1, 0, token_ids=[1, 9, 3]),
    ]
    found = compare(scored(records, order_of(plan)), "pristine", "patched", ["a", "b"], 1e-4)
    assert (found["near_ties"], found["unexplained"], found["matched_tokens"]) == (1, 1, 2)


def test_the_cost_model_recovers_what_was_put_in() -> None:
    plan = demo_plan()
    records: list[Any] = []
    for block in order_of(plan).planned:
        for step in block.visits:
            loops, tokens = (32, 5) if step.arm == "patched" else (1 + 31 * (block.block % 2), 1)
            work = {"passes": 10 + block.block, "draft_passes": 0}
            work["loop_passes"] = work["passes"] * loops
            work["token_loops"] = work["loop_passes"] * tokens * 4
            cost = (
                50e-6 * work["passes"] + 200e-6 * work["loop_passes"] + 9e-6 * work["token_loops"]
            )
            records.append(
                visit(block.block, step.position, step.arm, step.visit, cost, counters=work)
            )
        records.append({"kind": "block", "block": block.block, "event": "finished"})
    found = fit_cost(scored(records, order_of(plan)), list(plan.arms), range(16))
    assert found is not None
    assert found.per_loop_pass_us == pytest.approx(200, rel=1e-3)
    assert found.per_token_loop_us == pytest.approx(9, rel=1e-3)
    assert found.r2 > 0.999
