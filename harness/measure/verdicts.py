"""One verdict per prediction: preconditions first, then the interval against the region."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from harness.analysis import (
    Interval,
    NotEstimable,
    Region,
    Verdict,
    beside,
    broken_preconditions,
    decide,
    mcnemar,
    reconcile,
    resampling_key,
    round_twelve,
    sign_flip,
)
from harness.measure.chance import chance_if_no_effect
from harness.measure.estimates import UNITS, Measured, is_timing, measure, trial_pairs, visit_pairs
from harness.measure.scored import Scored
from harness.plan.digest import plan_digest
from harness.plan.predictions import confidence_level
from harness.plan.schema import Limits, Plan, Prediction
from harness.store.canonical import Json
from harness.store.randomness import derive

NO_EFFECT = {"log_ratio": 1.0, "ratio_of_sums": 1.0, "mean_diff": 0.0}


def verdicts(plan: Plan, data: Scored, attempt: int, run_void: str | None) -> list[Json]:
    """Decide every prediction of a plan."""
    return [_verdict(plan, prediction, data, attempt, run_void) for prediction in plan.predictions]


def _verdict(
    plan: Plan, prediction: Prediction, data: Scored, attempt: int, run_void: str | None
) -> Json:
    confidence = confidence_level(plan, prediction, attempt)
    timing = is_timing(prediction.estimand)
    blocks = data.blocks.timing if timing else data.blocks.quality
    measured = measure(prediction.estimand, data, blocks, confidence)
    reasons = [run_void] if run_void else []
    reasons += _broken(plan, prediction, data, measured, timing)
    verdict = _decide(prediction, measured, reasons)
    without = None
    aside = data.blocks.void | (_seen(data, prediction) if timing else frozenset())
    if aside:
        other = measure(prediction.estimand, data, blocks | aside, confidence)
        without = _decide(prediction, other, reasons)
        verdict = reconcile(verdict, without)
    return _json(plan, prediction, measured, verdict, confidence, blocks, data, attempt) | {
        "without_voids": None if without is None else without.word
    }


def _seen(data: Scored, prediction: Prediction) -> frozenset[int]:
    """Return the interrupted blocks whose times in both arms somebody could have seen.

    Whoever kills the blocks that he is losing must not gain by it: the verdict has to stand with
    what these blocks had shown, too.
    """
    arms = prediction.estimand.arms
    return frozenset(
        block
        for block in data.blocks.interrupted
        if all(data.visits_of(arm, [block]) for arm in arms)
    )


def _decide(prediction: Prediction, measured: Measured, reasons: Collection[str]) -> Verdict:
    low, high = prediction.region
    closed = not prediction.open
    return decide(
        measured.interval,
        Region(low, high, closed, closed),
        prediction.rule,
        broken=tuple(reasons),
        no_effect=NO_EFFECT.get(prediction.estimand.kind),
    )


def _broken(
    plan: Plan, prediction: Prediction, data: Scored, measured: Measured, timing: bool
) -> list[str]:
    """Return the frozen preconditions that the data break, in words."""
    planned = len(data.blocks.planned)
    reasons = list(
        broken_preconditions(
            clusters=measured.clusters,
            min_clusters=prediction.min_clusters,
            void_share=len(data.blocks.void) / planned,
            max_void_share=plan.limits.void_share,
        )
    )
    if timing:
        reasons += _interrupted(data, plan.limits)
    return reasons


def _interrupted(data: Scored, limits: Limits) -> list[str]:
    cut, planned = len(data.blocks.interrupted), len(data.blocks.planned)
    reasons = []
    if cut / planned > limits.interrupted_share:
        reasons.append(
            f"{cut} of {planned} blocks interrupted, allows {limits.interrupted_share:.0%}"
        )
    if cut > len(data.blocks.spares):
        reasons.append(f"{cut} blocks interrupted, {len(data.blocks.spares)} spares replaced them")
    return reasons


def _json(
    plan: Plan,
    prediction: Prediction,
    measured: Measured,
    verdict: Verdict,
    confidence: str,
    blocks: Collection[int],
    data: Scored,
    attempt: int,
) -> Json:
    interval = measured.interval
    known = isinstance(interval, Interval)
    return {
        "id": prediction.id,
        "claim": prediction.claim,
        "family": prediction.family,
        "word": verdict.word,
        "reasons": list(verdict.reasons),
        "notes": list(measured.notes),
        "estimand": prediction.estimand.model_dump(mode="json", exclude_none=True),
        "unit": _unit(prediction),
        "estimate": measured.estimate,
        "low": _finite(interval.low) if isinstance(interval, Interval) else None,
        "high": _finite(interval.high) if isinstance(interval, Interval) else None,
        "decimals": [verdict.estimate, verdict.low, verdict.high],
        "not_estimable": None if known else str(interval),
        "confidence_level": float(confidence),
        "method": interval.method if isinstance(interval, Interval) else None,
        "df": interval.df if isinstance(interval, Interval) else None,
        "region": list(prediction.region),
        "open": prediction.open,
        "rule": prediction.rule,
        "clusters": measured.clusters,
        "cluster": prediction.estimand.cluster,
        "n": measured.rows,
        "author_confidence": prediction.confidence,
        "point_word": verdict.by_point,
        "chance_if_no_effect": chance_if_no_effect(plan, prediction, attempt),
        "beside": _beside(plan, prediction, measured, confidence),
        "p": _test(plan, prediction, data, blocks),
        "expected": "failed" if prediction.family == "control" else None,
    }


def _beside(
    plan: Plan, prediction: Prediction, measured: Measured, confidence: str
) -> dict[str, list[float]]:
    """Bootstrap intervals printed beside the deciding one; they decide nothing."""
    sums = measured.sums
    if sums is None or not isinstance(measured.interval, Interval):
        return {}
    planned = plan.schedule.blocks
    if prediction.estimand.cluster == "item":
        planned *= plan.schedule.block_items
    found = beside(
        sums.numerator,
        sums.denominator,
        planned,
        key=resampling_key(plan_digest(plan), prediction.id),
        confidence=confidence,
        log=prediction.estimand.kind == "ratio_of_sums",
    )
    return {
        name: [_scaled(end, sums.logs) for end in (one.interval.low, one.interval.high)]
        for name, one in found.items()
        if not isinstance(one, NotEstimable) and math.isfinite(one.interval.low + one.interval.high)
    }


def _scaled(end: float, logs: bool) -> float:
    return round_twelve(math.exp(end) if logs else end)


def _unit(prediction: Prediction) -> str:
    estimand = prediction.estimand
    if estimand.kind == "mean_diff" and estimand.of == "correct":
        return "share_difference"
    return UNITS[estimand.kind]


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _test(plan: Plan, prediction: Prediction, data: Scored, blocks: Collection[int]) -> Json | None:
    """A test of "no difference", for the record; it never decides equivalence."""
    estimand = prediction.estimand
    if estimand.kind == "log_ratio":
        pairs = visit_pairs(estimand, data, blocks)
        key = derive("sign-flip-v1", plan_digest(plan), prediction.id)[:16]
        logs = [math.log(a) - math.log(b) for a, b in zip(pairs.a, pairs.b, strict=True)]
        return _p(sign_flip(logs, key=key)) if len(logs) > 1 else None
    if estimand.kind == "mean_diff" and estimand.of == "correct" and estimand.cluster == "item":
        items = trial_pairs(estimand, data, blocks)
        lost = sum(a > b for a, b in zip(items.a, items.b, strict=True))
        won = sum(b > a for a, b in zip(items.a, items.b, strict=True))
        exact = mcnemar(lost, won, "exact").p
        return _p(mcnemar(lost, won, "midp")) | {"exact": exact, "lost": lost, "won": won}
    return None


def _p(result: Any) -> Json:
    return {"test": result.method, "value": result.p}
