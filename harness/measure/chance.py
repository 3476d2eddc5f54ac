"""The chance that a prediction would hold if the arms did not differ: what its verdict is worth.

By normal approximation at the planned number of clusters, with stated scatter. A claim of no loss
should hold then (this is its power); a claim of a gain should not.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from harness.analysis import Interval, wilson_interval
from harness.plan.predictions import confidence_level
from harness.plan.schema import Plan, Prediction

TIME_SCATTER = 0.05
"""Spread of a block's log time ratio, assumed for planning."""
DISCORDANCE = 0.02
"""Share of answers that change sides where nothing changed but rounding, assumed for planning."""


def chance_if_no_effect(plan: Plan, prediction: Prediction, attempt: int) -> float | None:
    """Return P(held) if baseline and treated arm were the same; None for claims about one arm."""
    level = confidence_level(plan, prediction, attempt)
    clusters = plan.schedule.blocks
    if prediction.estimand.cluster == "item":
        clusters *= plan.schedule.block_items
    low, high = prediction.region
    match prediction.estimand.kind:
        case "log_ratio" | "ratio_of_sums":
            if high is not None and high <= 0:
                return 0.0
            return _inside((_log(low), _log(high)), TIME_SCATTER / math.sqrt(clusters), level)
        case "mean_diff":
            return _inside((low, high), math.sqrt(DISCORDANCE / clusters), level)
        case "agreement":
            interval = wilson_interval(clusters, clusters, level)
            assert isinstance(interval, Interval)
            return float((low or 0.0) <= interval.low)
        case "mcnemar":
            return high if low is None else None
        case _:
            return None


def _inside(ends: tuple[float | None, float | None], error: float, level: str) -> float:
    """P(the whole interval lies inside) for an estimate around 0 with this standard error."""
    half = float(ndtri((1 + float(level)) / 2)) * error
    low, high = ends
    below = 1.0 if high is None else float(ndtr((high - half) / error))
    above = 0.0 if low is None else float(ndtr((low + half) / error))
    return max(0.0, below - above)


def _log(end: float | None) -> float | None:
    """The end on the log scale; every ratio lies above an end that is not positive."""
    return None if end is None or end <= 0 else math.log(end)
