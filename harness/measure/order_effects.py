"""Whether the order left a trace: drift, a slow first visit, carry-over, as ratios of times."""

from __future__ import annotations

import math
from collections.abc import Collection

from harness.analysis import AnalysisError, Interval, NotEstimable, order_diagnostics
from harness.measure import generation
from harness.measure.scored import Scored
from harness.store.canonical import Json


def order_effects(data: Scored, arms: Collection[str], quantity: str) -> Json:
    """Return each effect on log times as a ratio with its 95 % interval, or why there is none.

    drift: per position within a block; first_run: what a block's first visit adds; carry_over: a
    visit after the named arm beside a visit after the first arm.
    """
    names = list(arms)
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
    carry = {
        f"carry_over_{name}": _ratio(effect)
        for name, effect in zip(names[1:], found.carry_over, strict=True)
    }
    return {"drift": _ratio(found.drift), "first_run": _ratio(found.first_run), **carry}


def _ratio(effect: Interval | NotEstimable) -> Json:
    if isinstance(effect, NotEstimable):
        return {"not_estimable": effect.reason}
    estimate, low, high = map(math.exp, (effect.estimate, effect.low, effect.high))
    return {"estimate": estimate, "low": low, "high": high}
