"""From a prediction's sums to its estimate, what stands beside it, and a test of no difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analysis import (
    AnalysisError,
    Estimate,
    Interval,
    NotEstimable,
    TestResult,
    accuracy_diff_of_counts,
    beside,
    clusters_of,
    cr2_interval,
    cr2_test,
    log_ratio_of_means,
    mcnemar,
    mean_diff_of_sums,
    quantile_diff,
    quantile_ratio,
    ratio_of_cluster_sums,
    round_twelve,
    sign_flip,
    tail_ratio_of_sums,
    tail_share_of_sums,
    wilson_interval,
)
from harness.analysis.arrays import Floats
from harness.measure.table_plan import TablePlan, TablePrediction
from harness.measure.table_sums import Summed
from harness.store.canonical import Json
from harness.store.errors import UsageError

NO_PAIRS = NotEstimable("no pair has both values")


@dataclass(frozen=True)
class Found:
    """An estimate with what is printed beside it."""

    estimate: Estimate | NotEstimable
    ratio: tuple[Floats, Floats] | None
    """Numerator and denominator per cluster that a bootstrap resamples."""
    logs: bool
    """Whether that ratio is a logarithm of what is reported."""
    test: TestResult | NotEstimable | None
    lost: int | None = None
    won: int | None = None


def found_in(plan: TablePlan, prediction: TablePrediction, sums: Summed, key: bytes) -> Found:
    """Return the estimate of one prediction.

    Raises:
        UsageError: data that the estimand has no meaning for.
    """
    if not len(sums.pairs):
        return Found(NO_PAIRS, None, False, None)
    confidence = plan.confidence_level(prediction)
    try:
        match prediction.estimand.kind:
            case "mean_diff":
                return _mean_diff(plan, prediction, sums, confidence, key)
            case "log_ratio":
                return _log_ratio(sums, confidence, key)
            case "agreement":
                return _agreement(sums, confidence)
            case "quantile_ratio" | "quantile_diff":
                return _quantile(prediction, sums, confidence, key)
            case _:
                return _ratio(prediction, sums, confidence)
    except AnalysisError as error:
        raise UsageError(f"predictions.{prediction.id}: {error}") from error


def _mean_diff(
    plan: TablePlan, prediction: TablePrediction, sums: Summed, confidence: str, key: bytes
) -> Found:
    if prediction.estimand.of in plan.answers:
        return _accuracy(sums, confidence, key)
    sizes = sums.pairs.astype(np.float64)
    estimate = mean_diff_of_sums(
        sums.first, sizes, int(sums.pairs.sum()), confidence, strata=sums.strata
    )
    test = sign_flip(sums.first, key=key)
    return Found(estimate, (sums.first, sizes), False, test)


def _accuracy(sums: Summed, confidence: str, key: bytes) -> Found:
    assert sums.joint is not None
    codes, a, b = sums.joint
    clusters = len(sums.pairs)
    lost = np.bincount(codes, weights=a * (1 - b), minlength=clusters)
    won = np.bincount(codes, weights=b * (1 - a), minlength=clusters)
    estimate = accuracy_diff_of_counts(lost, won, sums.pairs, confidence, strata=sums.strata)
    gap: Floats = (won - lost).astype(np.float64)
    totals = int(lost.sum()), int(won.sum())
    single = int(sums.pairs.max()) == 1
    test = mcnemar(*totals, "midp") if single else sign_flip(gap, key=key)
    return Found(estimate, (gap, sums.pairs.astype(np.float64)), False, test, *totals)


def _log_ratio(sums: Summed, confidence: str, key: bytes) -> Found:
    means = sums.first / sums.pairs
    rows = int(sums.pairs.sum())
    estimate = log_ratio_of_means(means, rows, confidence, strata=sums.strata)
    return Found(estimate, (means, np.ones_like(means)), True, sign_flip(means, key=key))


def _ratio(prediction: TablePrediction, sums: Summed, confidence: str) -> Found:
    """ΣA/ΣB, a rate in one arm, and tails."""
    rows, both = int(sums.pairs.sum()), (sums.first, sums.second)
    match prediction.estimand.kind:
        case "ratio_of_sums":
            ratio = ratio_of_cluster_sums(*both, rows, confidence, strata=sums.strata)
            return Found(ratio, both, False, _unity(*both))
        case "tail_ratio":
            tails = tail_ratio_of_sums(*both, rows, confidence)
            return Found(tails, both, False, _unity(*both))
        case "tail_share":
            share = tail_share_of_sums(sums.first, sums.pairs, confidence)
            return Found(share, (sums.first, sums.pairs.astype(np.float64)), False, None)
        case _:
            return Found(_rate(*both, rows, confidence), both, False, None)


def _unity(top: Floats, bottom: Floats) -> TestResult | NotEstimable:
    return cr2_test(top, bottom, null=1.0, log=True)


def _rate(top: Floats, bottom: Floats, rows: int, confidence: str) -> Estimate | NotEstimable:
    total = float(bottom.sum())
    if total <= 0:
        return NotEstimable("the denominator sums to 0")
    interval = cr2_interval(top, bottom, confidence=confidence)
    flat = isinstance(interval, Interval) and interval.degenerate
    point = float(top.sum()) / total
    return Estimate("rate", point, interval, rows, len(top), None, flat, None)


def _agreement(sums: Summed, confidence: str) -> Found:
    """Share of pairs with the same value in both arms, by Wilson: one pair per cluster."""
    assert sums.joint is not None
    if int(sums.pairs.max()) > 1:
        raise UsageError(
            "agreement needs one pair per cluster; put 0 and 1 in a column and predict its rate"
        )
    same = sums.joint[1].view(np.uint64) == sums.joint[2].view(np.uint64)
    hits, total = int(same.sum()), len(same)
    interval = wilson_interval(hits, total, confidence)
    share = hits / total
    return Found(
        Estimate("agreement", share, interval, total, total, None, False, None), None, False, None
    )


def _quantile(prediction: TablePrediction, sums: Summed, confidence: str, key: bytes) -> Found:
    assert sums.joint is not None
    codes, a, b = sums.joint
    estimator = quantile_ratio if prediction.estimand.kind == "quantile_ratio" else quantile_diff
    share = str(prediction.estimand.p)
    estimate = estimator(clusters_of(codes), a, b, share, key=key, confidence=confidence)
    return Found(estimate, None, False, None)


def beside_of(
    found: Found, prediction: TablePrediction, confidence: str, key: bytes
) -> dict[str, list[float]]:
    """Return bootstrap intervals to print beside the deciding one; they decide nothing."""
    estimate = found.estimate
    if found.ratio is None or isinstance(estimate, NotEstimable):
        return {}
    if isinstance(estimate.interval, NotEstimable):
        return {}
    log = prediction.estimand.kind in ("ratio_of_sums", "tail_ratio", "tail_share")
    planned = max(prediction.min_clusters, len(found.ratio[0]))
    every = beside(*found.ratio, planned, key=key, confidence=confidence, log=log)
    kept = {}
    for name, one in every.items():
        if isinstance(one, NotEstimable):
            continue
        ends = np.array([one.interval.low, one.interval.high])
        with np.errstate(over="ignore"):
            ends = np.exp(ends) if found.logs else ends
        if np.isfinite(ends).all():
            kept[name] = [round_twelve(float(end)) for end in ends]
    return kept


def test_json(found: Found) -> Json | None:
    """Return the test of no difference, for the record; it never decides equivalence."""
    if not isinstance(found.test, TestResult):
        return None
    counted = {} if found.lost is None else {"lost": found.lost, "won": found.won}
    return {"test": found.test.method, "value": found.test.p, **counted}


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON; an open end is none."""
    return float(value) if np.isfinite(value) else None
