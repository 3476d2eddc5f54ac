"""Verdicts on any table of paired records: two readings, then one verdict per prediction.

Nothing here was frozen before the data, so every analysis says "not preregistered".
"""

from __future__ import annotations

from harness.analysis import (
    Interval,
    NotEstimable,
    Region,
    Verdict,
    broken_preconditions,
    decide,
    resampling_key,
)
from harness.measure.table_estimates import Found, beside_of, finite_or_none, found_in, test_json
from harness.measure.table_plan import RATIOS, TablePlan, TablePrediction
from harness.measure.table_source import Source
from harness.measure.table_sums import Summed, sums_of
from harness.measure.table_survey import Reader, survey
from harness.store.canonical import Json

NOT_PREREGISTERED = "not preregistered"
_SHARES = frozenset({"agreement", "rate", "tail_share"})


def evaluate_table(source: Source, plan: TablePlan) -> Json:
    """Return the analysis of a table as JSON, in the shape of a run's.

    Raises:
        UsageError: a table or plan that cannot be analysed; one line with column and row.
    """
    reader = Reader(source, plan)
    found = survey(reader)
    sums = sums_of(reader, found)
    return {
        "format": 1,
        "plan": plan.title,
        "title": plan.title,
        "plan_digest": plan.digest,
        "role": NOT_PREREGISTERED,
        "table": {"name": source.name, "rows": found.rows},
        "verdicts": [_judged(plan, one, sums[one.id]) for one in plan.predictions],
    }


def _judged(plan: TablePlan, prediction: TablePrediction, sums: Summed) -> Json:
    key = resampling_key(plan.digest, prediction.id)
    found = found_in(plan, prediction, sums, key)
    verdict = _decide(plan, prediction, found, sums)
    confidence = plan.confidence_level(prediction)
    whole = int(sums.pairs.sum())
    return {
        "id": prediction.id,
        "claim": prediction.claim,
        "family": prediction.family,
        "registered": False,
        "word": verdict.word,
        "reasons": list(verdict.reasons),
        "estimand": prediction.estimand.model_dump(mode="json", exclude_none=True),
        "unit": _unit(plan, prediction),
        **_numbers(found),
        "decimals": [verdict.estimate, verdict.low, verdict.high],
        "confidence_level": float(confidence),
        "region": list(prediction.region),
        "open": prediction.open,
        "rule": prediction.rule,
        "clusters": len(sums.pairs),
        "cluster": prediction.estimand.cluster,
        "n": whole,
        "missing": {
            "pairs": sums.dropped,
            "share": sums.dropped / max(1, whole + sums.dropped),
            "bounds": None if sums.bounds is None else list(sums.bounds),
        },
        "author_confidence": prediction.confidence,
        "point_word": verdict.by_point,
        "beside": beside_of(found, prediction, confidence, key),
        "p": test_json(found),
        "expected": "failed" if prediction.family == "control" else None,
    }


def _numbers(found: Found) -> Json:
    estimate = found.estimate
    if isinstance(estimate, NotEstimable):
        return _interval_json(estimate) | {"estimate": None, "notes": []}
    return _interval_json(estimate.interval) | {
        "estimate": finite_or_none(estimate.estimate),
        "notes": list(estimate.notes),
    }


def _interval_json(interval: Interval | NotEstimable) -> Json:
    if isinstance(interval, NotEstimable):
        gaps = dict.fromkeys(("low", "high", "method", "df"))
        return gaps | {"not_estimable": interval.reason}
    return {
        "low": finite_or_none(interval.low),
        "high": finite_or_none(interval.high),
        "method": interval.method,
        "df": interval.df,
        "not_estimable": None,
    }


def _decide(plan: TablePlan, prediction: TablePrediction, found: Found, sums: Summed) -> Verdict:
    low, high = prediction.region
    closed = not prediction.open
    whole = int(sums.pairs.sum())
    broken = broken_preconditions(
        clusters=len(sums.pairs),
        min_clusters=prediction.min_clusters,
        missing_share=sums.dropped / max(1, whole + sums.dropped),
        max_missing_share=plan.max_missing_share,
    )
    region = Region(low, high, closed, closed)
    return decide(found.estimate, region, prediction.rule, broken=broken)


def _unit(plan: TablePlan, prediction: TablePrediction) -> str:
    estimand = prediction.estimand
    if estimand.kind in RATIOS:
        return "ratio"
    if estimand.kind in _SHARES:
        return "share"
    of_answers = estimand.kind == "mean_diff" and estimand.of in plan.answers
    return "share_difference" if of_answers else "difference"


def notes_of(verdict: Json) -> list[str]:
    """Return in words what stands beside one verdict: p-value, bootstraps, missing pairs, notes."""
    lines = []
    if verdict["p"] is not None:
        counted = verdict["p"]
        pairs = f"; {counted['lost']} lost, {counted['won']} won" if "lost" in counted else ""
        lines.append(f"p = {counted['value']:.3g} ({counted['test']}{pairs})")
    for name, (low, high) in verdict["beside"].items():
        lines.append(f"{name} bootstrap [{low:.4g}, {high:.4g}]")
    missing = verdict["missing"]
    if missing["pairs"]:
        noun = "pair" if missing["pairs"] == 1 else "pairs"
        words = f"{missing['pairs']} {noun} without both values ({missing['share']:.1%})"
        if missing["bounds"] is not None:
            worst, best = missing["bounds"]
            words += f", with them between {worst:.4g} and {best:.4g}"
        lines.append(words)
    return [*lines, *verdict["notes"]]
