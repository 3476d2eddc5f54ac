"""One prediction's estimand, from the scored records to an estimate with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analysis import (
    Interval,
    NotEstimable,
    accuracy_diff,
    cluster_sums,
    cr2_interval,
    log_ratio,
    mcnemar,
    mean_diff,
    percentile_ranks,
    ratio_of_sums,
    resampled_sums,
    resampling_key,
    round_twelve,
    wilson_interval,
)
from harness.measure import generation, memory
from harness.measure.acceptance import places, predicted_tokens
from harness.measure.divergence import same_tokens
from harness.measure.scored import Scored
from harness.plan.schema import Estimand
from harness.store.canonical import Json
from harness.store.errors import UsageError

RESAMPLES = 9999

TRIAL = {**generation.TRIAL, **memory.TRIAL}
UNITS = {
    "log_ratio": "ratio",
    "ratio_of_sums": "ratio",
    "mean_diff": "difference",
    "agreement": "share",
    "rate": "share",
    "mcnemar": "p",
    "model_ratio": "ratio",
}


@dataclass(frozen=True)
class Measured:
    """An estimate on its reporting scale; `interval` says why where nothing can be said."""

    estimate: float | None
    interval: Interval | NotEstimable
    clusters: int
    rows: int
    degenerate: bool
    notes: tuple[str, ...] = ()
    sums: ClusterPair | None = None
    """What a bootstrap beside the deciding interval resamples."""


@dataclass(frozen=True)
class ClusterPair:
    """Numerator and denominator per cluster; on logs where the estimate is their exponential."""

    numerator: npt.NDArray[np.float64]
    denominator: npt.NDArray[np.float64]
    logs: bool = False


@dataclass(frozen=True)
class Pairs:
    """Paired rows: cluster labels, baseline values, treated values."""

    cluster: list[str]
    a: list[float]
    b: list[float]


def is_timing(estimand: Estimand) -> bool:
    """Whether the estimand is about time, so that interrupted blocks cannot answer it."""
    return estimand.of in generation.VISIT


def measure(estimand: Estimand, data: Scored, blocks: Collection[int], confidence: str) -> Measured:
    """Estimate one estimand over some blocks.

    Raises:
        UsageError: a quantity that was never measured, or a kind that does not fit it.
    """
    if is_timing(estimand) and estimand.kind != "log_ratio":
        raise UsageError(f"estimand: {estimand.kind} of {estimand.of}: times take log_ratio")
    if estimand.kind == "model_ratio":
        return model_ratio(estimand.arms[1], data, blocks, confidence)
    if estimand.kind == "mcnemar":
        return _mcnemar(trial_pairs(estimand, data, blocks), confidence)
    if estimand.kind == "rate":
        return _rate(estimand, data, blocks, confidence)
    if estimand.kind == "agreement":
        return _agreement(estimand, data, blocks, confidence)
    pairs = (
        visit_pairs(estimand, data, blocks)
        if is_timing(estimand)
        else trial_pairs(estimand, data, blocks)
    )
    return _paired(estimand, pairs, confidence)


def _paired(estimand: Estimand, pairs: Pairs, confidence: str) -> Measured:
    if not pairs.a:
        return Measured(None, NotEstimable("no pairs were recorded"), 0, 0, degenerate=True)
    cluster, a, b = pairs.cluster, pairs.a, pairs.b
    match estimand.kind:
        case "log_ratio":
            found = log_ratio(cluster, a, b, confidence=confidence)
        case "mean_diff" if estimand.of == "correct" and _binary(a) and _binary(b):
            found = accuracy_diff(cluster, a, b, confidence=confidence)
        case "mean_diff":
            found = mean_diff(cluster, a, b, weights="row", confidence=confidence)
        case _:
            ratio = ratio_of_sums(cluster, a, b, confidence=confidence)
            if isinstance(ratio, NotEstimable):
                return Measured(None, ratio, len(set(cluster)), len(a), degenerate=True)
            found = ratio
    return Measured(
        found.estimate,
        found.interval,
        found.clusters,
        found.rows,
        found.degenerate,
        found.notes,
        _sums(estimand.kind, pairs),
    )


def _sums(kind: str, pairs: Pairs) -> ClusterPair:
    a, b = np.array(pairs.a), np.array(pairs.b)
    if kind == "log_ratio":
        means = cluster_sums(pairs.cluster, np.log(a) - np.log(b)).means
        return ClusterPair(means, np.ones_like(means), logs=True)
    if kind == "mean_diff":
        table = cluster_sums(pairs.cluster, b - a)
        return ClusterPair(table.sums, cluster_sums(pairs.cluster, np.ones_like(a)).sums)
    return ClusterPair(cluster_sums(pairs.cluster, a).sums, cluster_sums(pairs.cluster, b).sums)


def paired_accuracy(pairs: Pairs, confidence: str) -> Interval | NotEstimable:
    """Return the interval of the accuracy difference over pairs of right and wrong answers."""
    if not pairs.a:
        return NotEstimable("no pairs were recorded")
    return accuracy_diff(pairs.cluster, pairs.a, pairs.b, confidence=confidence).interval


def _mcnemar(pairs: Pairs, confidence: str) -> Measured:
    """McNemar's mid-p on each arm's first visit; the p-value stands for estimate and interval."""
    lost = sum(a > b for a, b in zip(pairs.a, pairs.b, strict=True))
    won = sum(b > a for a, b in zip(pairs.a, pairs.b, strict=True))
    count = len(pairs.a)
    if count < 2:
        return Measured(None, NotEstimable("no pairs were recorded"), count, count, degenerate=True)
    p = mcnemar(lost, won, "midp").p
    interval = Interval(p, p, p, float(confidence), "mcnemar-midp", None, count)
    return Measured(p, interval, count, count, degenerate=False)


def _binary(values: Sequence[float]) -> bool:
    return all(value in (0, 1) for value in values)


def visit_pairs(estimand: Estimand, data: Scored, blocks: Collection[int]) -> Pairs:
    """Return one pair per block: the geometric mean over each arm's visits."""
    quantity = generation.VISIT[estimand.of]
    pairs = Pairs([], [], [])
    for block in sorted(blocks):
        values = [data.visits_of(arm, [block]) for arm in estimand.arms]
        if all(values):
            left, right = (_geometric_mean(quantity, visits) for visits in values)
            _add(pairs, str(block), left, right)
    return pairs


def _geometric_mean(quantity: Callable[[Json], float], visits: list[Json]) -> float:
    return math.exp(math.fsum(math.log(quantity(visit)) for visit in visits) / len(visits))


def trial_pairs(estimand: Estimand, data: Scored, blocks: Collection[int]) -> Pairs:
    """Return one pair per item: each arm's first trial of it."""
    quantity = _trial_quantity(estimand.of)
    pairs = Pairs([], [], [])
    for item in data.items_of(blocks):
        first = [data.first(item, arm) for arm in estimand.arms]
        if first[0] is not None and first[1] is not None:
            label = item if estimand.cluster == "item" else str(data.item_block[item])
            _add(pairs, label, quantity(first[0]), quantity(first[1]))
    return pairs


def _trial_quantity(name: str) -> Callable[[Json], float]:
    if name not in TRIAL:
        known = ", ".join(sorted({*TRIAL, *generation.VISIT}))
        raise UsageError(f"estimand.of: {name} is not measured; measured are {known}")
    return TRIAL[name]


def _add(pairs: Pairs, label: str, left: float, right: float) -> None:
    pairs.cluster.append(label)
    pairs.a.append(left)
    pairs.b.append(right)


def _rate(estimand: Estimand, data: Scored, blocks: Collection[int], confidence: str) -> Measured:
    """Σ of one quantity over Σ of another in one arm, clustered, over all its visits."""
    top, bottom = _trial_quantity(estimand.of), _trial_quantity(estimand.per or "")
    arm = estimand.arms[1]
    rows = [
        (item if estimand.cluster == "item" else str(data.item_block[item]), top(t), bottom(t))
        for item in data.items_of(blocks)
        for t in data.trials.get((item, arm), [])
    ]
    if not rows:
        return Measured(None, NotEstimable("no trials were recorded"), 0, 0, degenerate=True)
    labels = [label for label, _, _ in rows]
    numerator = cluster_sums(labels, [value for _, value, _ in rows]).sums
    denominator = cluster_sums(labels, [value for _, _, value in rows]).sums
    interval = cr2_interval(numerator, denominator, confidence=confidence)
    total = float(denominator.sum())
    estimate = float(numerator.sum()) / total if total else None
    flat = isinstance(interval, Interval) and interval.degenerate
    sums = ClusterPair(numerator, denominator)
    return Measured(estimate, interval, len(numerator), len(rows), flat, (), sums)


def model_ratio(arm: str, data: Scored, blocks: Collection[int], confidence: str) -> Measured:
    """Tokens per verification over what independent drafts of one acceptance rate would give.

    θ = ((T − n)/P) / τ(α), α = Σ kept / Σ tried over items; a percentile bootstrap over items.
    """
    trials = [t for item in data.items_of(blocks) for t in data.trials.get((item, arm), [])[:1]]
    rows = [row for trial in trials if (row := _drafting(trial)) is not None]
    if len(rows) < 2:
        reason = NotEstimable("fewer than two items with drafts")
        return Measured(None, reason, len(rows), len(rows), degenerate=True)
    table = np.array(rows)
    drafts = max(places(trials))
    estimate = float(_over_model(table.sum(axis=0), drafts))
    key = resampling_key("model-ratio-v1", arm)
    draws = np.sort(_over_model(resampled_sums(key, table, RESAMPLES), drafts))
    ranks = percentile_ranks(RESAMPLES, confidence)
    if ranks is None or not np.isfinite(draws).all():
        reason = NotEstimable("resamples without a value")
        return Measured(estimate, reason, len(rows), len(rows), degenerate=True)
    low, high = (round_twelve(float(draws[rank - 1])) for rank in ranks)
    interval = Interval(estimate, low, high, float(confidence), "percentile", None, len(rows))
    return Measured(estimate, interval, len(rows), len(rows), degenerate=low == high)


def _drafting(trial: Json) -> tuple[float, float, float, float] | None:
    """Tokens from verifications, verifications, drafts tried and kept; None where none were."""
    tried = sum(one["tried"] for one in places([trial]).values())
    kept = sum(one["kept"] for one in places([trial]).values())
    passes = trial["counters"].get("passes", 0)
    return (len(trial["token_ids"]) - 1, passes, tried, kept) if tried and passes else None


def _over_model(sums: npt.NDArray[np.float64], drafts: int) -> npt.NDArray[np.float64]:
    tokens, passes, tried, kept = np.moveaxis(sums, -1, 0)
    return np.asarray((tokens / passes) / predicted_tokens(kept / tried, drafts))


def _agreement(
    estimand: Estimand, data: Scored, blocks: Collection[int], confidence: str
) -> Measured:
    """Share of items for which both arms' first trials gave the same token ids (Wilson)."""
    if estimand.of != "tokens" or estimand.cluster != "item":
        raise UsageError("estimand: agreement is of tokens, clustered by item")
    hits = []
    for item in data.items_of(blocks):
        first = [data.first(item, arm) for arm in estimand.arms]
        if first[0] is not None and first[1] is not None:
            hits.append(same_tokens(first[0], first[1]))
    if not hits:
        return Measured(None, NotEstimable("no pairs were recorded"), 0, 0, degenerate=True)
    interval = wilson_interval(sum(hits), len(hits), confidence)
    if isinstance(interval, Interval):
        interval = replace(interval, clusters=len(hits))
    return Measured(sum(hits) / len(hits), interval, len(hits), len(hits), degenerate=False)
