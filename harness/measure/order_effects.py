"""Whether the order left a trace: drift, a slow first visit, carry-over, in log ratios of time."""

from __future__ import annotations

import math
from collections.abc import Collection

from harness.analysis import AnalysisError, Interval, NotEstimable, order_diagnostics
from harness.measure import generation
from harness.measure.scored import Scored
from harness.store.canonical import Json


def order_effects(
    data: Scored, pair: tuple[str, str], arms: Collection[str], quantity: str
) -> Json:
    """Return each effect on log times with its 95 % interval, or why there is none.

    drift: per position within a block; first_run: what a block's first visit adds; carry_over: a
    visit after the second of `pair` beside a visit after the first.
    """
    names = [*pair, *(arm for arm in arms if arm not in pair)]
    visits = [v for arm in names for v in data.visits_of(arm, data.blocks.timing)]
    if not visits:
        return {}
    try:
        found = order_diagnostics(
            [str(visit["key"]["block"]) for visit in visits],
            [visit["position"] for visit in visits],
            [names.index(visit["key"]["arm"]) for visit in visits],
            [math.log(generation.VISIT[quantity](visit)) for visit in visits],
        )
    except AnalysisError as error:
        return {"not_estimable": str(error)}
    return {
        "drift": _json(found.drift),
        "first_run": _json(found.first_run),
        "carry_over": _json(found.carry_over[0]),
    }


def _json(effect: Interval | NotEstimable) -> Json:
    if isinstance(effect, NotEstimable):
        return {"not_estimable": effect.reason}
    return {"estimate": effect.estimate, "low": effect.low, "high": effect.high}
