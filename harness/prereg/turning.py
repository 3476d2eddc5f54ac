"""Every decision rule must be able to turn both ways, or its verdict is no news.

Before a freeze, each prediction is decided on synthetic data at the planned number of clusters:
outcomes from far below to far above its region, with one per cent of scatter between clusters. A
rule for which none of them gives `held`, or none gives `failed`, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis import (
    Estimate,
    Interval,
    NotEstimable,
    Region,
    accuracy_diff,
    cr2_interval,
    decide,
    log_ratio,
    mean_diff,
    ratio_of_sums,
    wilson_interval,
)
from harness.plan.predictions import confidence_level
from harness.plan.schema import Plan, Prediction
from harness.store.errors import UsageError

SCATTER = 0.01
"""Spread between clusters in the synthetic data, relative; kinder than any timing on a computer."""

_STEPS = 48
_FACTORS = (0.1, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.01, 1.02, 1.05, 1.1, 1.25, 2.0, 10.0)
_SHARES = frozenset({("accepted", "drafted")})
"""Rates that cannot exceed one, because the one counts a part of the other."""

Floats = npt.NDArray[np.float64]
Result = Estimate | Interval | NotEstimable


def check_turning(plan: Plan, attempt: int) -> None:
    """Refuse rules that cannot turn.

    Raises:
        UsageError: naming the prediction, what it can never be, and what would change that.
    """
    for prediction in plan.predictions:
        words = {word for word, _ in outcomes(plan, prediction, attempt)}
        for word, cure in (("held", "more clusters or a wider"), ("failed", "a narrower")):
            if word not in words:
                low, high = prediction.region
                level = confidence_level(plan, prediction, attempt)
                raise UsageError(
                    f"conf/{plan.plan}.yaml: predictions.{prediction.id}: region [{low}, {high}] "
                    f"can never be {word} with {clusters_of(plan, prediction)} clusters at "
                    f"confidence {level}; it needs {cure} region"
                )


def outcomes(plan: Plan, prediction: Prediction, attempt: int) -> Iterator[tuple[str, Result]]:
    """Yield the verdict and the result of every synthetic outcome of one prediction."""
    closed = not prediction.open
    region = Region(*prediction.region, low_closed=closed, high_closed=closed)
    for result in _results(plan, prediction, confidence_level(plan, prediction, attempt)):
        yield decide(result, region, prediction.rule).word, result


def clusters_of(plan: Plan, prediction: Prediction) -> int:
    """Return how many clusters the plan gives a prediction."""
    per_block = plan.schedule.block_items if prediction.estimand.cluster == "item" else 1
    return plan.schedule.blocks * per_block


def _results(plan: Plan, prediction: Prediction, confidence: str) -> Iterator[Result]:
    count = clusters_of(plan, prediction)
    estimand = prediction.estimand
    match estimand.kind:
        case "agreement":
            for hits in _grid(count):
                yield wilson_interval(hits, count, confidence)
        case "mean_diff" if estimand.of == "correct":
            yield from _accuracy(plan, count, confidence)
        case "mean_diff":
            base, scatter = _shape(count)
            for shift in _shifts(prediction.region):
                spread = SCATTER * max(abs(shift), SCATTER)
                other = base + shift + spread * scatter
                yield mean_diff(_labels(count), base, other, weights="row", confidence=confidence)
        case "mcnemar":
            for p in (0.001, 0.01, 0.04, 0.2, 0.6, 1.0):
                yield Interval(p, p, p, float(confidence), "mcnemar-midp", None, count)
        case "model_ratio":
            base, scatter = _shape(count)
            for ratio in _positive(prediction.region):
                yield cr2_interval(
                    ratio * base * np.exp(SCATTER * scatter), base, confidence=confidence
                )
        case "rate":
            top = 1.0 if (estimand.of, estimand.per) in _SHARES else math.inf
            yield from _rates(prediction, count, top, confidence)
        case "log_ratio" | "ratio_of_sums":
            yield from _ratios(prediction, count, confidence)


def _ratios(prediction: Prediction, count: int, confidence: str) -> Iterator[Result]:
    estimator = log_ratio if prediction.estimand.kind == "log_ratio" else ratio_of_sums
    base, scatter = _shape(count)
    for ratio in _positive(prediction.region):
        other = base / ratio * np.exp(SCATTER * scatter)
        yield estimator(_labels(count), base, other, confidence=confidence)


def _rates(prediction: Prediction, count: int, top: float, confidence: str) -> Iterator[Result]:
    base, scatter = _shape(count)
    for rate in _positive(prediction.region):
        values = np.minimum(rate * np.exp(SCATTER * scatter), top) * base
        yield cr2_interval(values, base, confidence=confidence)


def _accuracy(plan: Plan, count: int, confidence: str) -> Iterator[Result]:
    """Right and wrong answers: from every pair lost over no difference to every pair won."""
    rows = plan.schedule.blocks * plan.schedule.block_items
    labels = [place * count // rows for place in range(rows)]
    spread = np.argsort(
        np.arange(rows) * 0.6180339887498949 % 1.0
    )  # the golden ratio scatters evenly
    for changed in _grid(rows):
        mask = np.zeros(rows, dtype=np.int64)
        mask[spread[:changed]] = 1
        yield accuracy_diff(labels, mask, np.zeros_like(mask), confidence=confidence)
        yield accuracy_diff(labels, np.zeros_like(mask), mask, confidence=confidence)


def _labels(count: int) -> list[int]:
    return list(range(count))


def _shape(count: int) -> tuple[Floats, Floats]:
    """Baseline values around one, and a scatter apart from them with mean 0 and deviation 1."""
    place = np.linspace(-1.0, 1.0, count)
    scatter = place[np.argsort(np.arange(count) * 0.6180339887498949 % 1.0)]
    scale = float(scatter.std(ddof=1)) if count > 1 else 1.0
    return 1.0 + 0.1 * place, scatter / scale


def _grid(count: int) -> list[int]:
    """Whole numbers from 0 to `count`: evenly spaced, and every one near either end."""
    steps = {round(count * step / _STEPS) for step in range(_STEPS + 1)}
    near = {k for k in range(6) if k <= count}
    return sorted(steps | near | {count - k for k in near})


def _positive(region: tuple[float | None, float | None]) -> list[float]:
    ends = [end for end in region if end is not None and end > 0]
    values = {end * factor for end in ends for factor in _FACTORS} | {0.01, 1.0, 100.0}
    if len(ends) == 2:
        values.add(math.sqrt(ends[0] * ends[1]))
    return sorted(values)


def _shifts(region: tuple[float | None, float | None]) -> list[float]:
    ends = [end for end in region if end is not None]
    scale = max([abs(end) for end in ends] + [ends[-1] - ends[0]]) or 1.0
    steps = (0.01, 0.1, 0.5, 1.0, 3.0, 10.0)
    values = {end + sign * scale * step for end in ends for step in steps for sign in (-1, 1)}
    return sorted(values | {sum(ends) / len(ends)})
