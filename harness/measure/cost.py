"""What a pass costs, fitted to a run's timed visits."""

from __future__ import annotations

from collections.abc import Collection

from harness.analysis import NotEstimable, PassCost, pass_cost
from harness.measure.scored import Scored
from harness.store.canonical import Json


def fit_cost(data: Scored, arms: Collection[str], blocks: Collection[int]) -> PassCost | None:
    """Fit `pass_cost` to decode CPU time over all timed visits of some arms.

    None where too few visits carry the counters, or they don't vary.
    """
    rows = [
        _row(visit)
        for arm in arms
        for visit in data.visits_of(arm, blocks)
        if "loop_passes" in visit.get("counters", {})
    ]
    if not rows:
        return None
    found = pass_cost(*zip(*rows, strict=True))
    return None if isinstance(found, NotEstimable) else found


def _row(visit: Json) -> tuple[float, float, float, float]:
    counters = visit["counters"]
    passes = counters["passes"] + counters.get("draft_passes", 0)
    seconds = int(visit["timing"]["decode_cpu_ns"]) / 1e9
    return passes, counters["loop_passes"], counters["token_loops"], seconds
