"""What a reader should see first: A/A, A/B and A/known-bad side by side, and what positions did."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection

from harness.analysis import Interval, NotEstimable, cr2_interval
from harness.measure.arms import mean_log
from harness.measure.estimates import Pairs, measure, paired_accuracy
from harness.measure.generation import right
from harness.measure.scored import Scored
from harness.plan.schema import Estimand, Plan
from harness.plan.visible import decode_clock
from harness.store.canonical import Json

LEVEL = "0.95"


def bars(plan: Plan, data: Scored, pair: tuple[str, str], aa: Json | None) -> Json:
    """Return three bars for time (ratio of decode time, of the CPU where it is known) and three for
    accuracy (difference).
    """
    first, second = pair
    controls = [name for name, arm in plan.arms.items() if arm.role == "control"]
    others = {"A/B": second} | ({"A/known-bad": controls[0]} if controls else {})
    time = [_aa_time(first, aa)] + [
        _time(plan, data, label, (first, arm)) for label, arm in others.items()
    ]
    quality = [_aa_accuracy(data, first)]
    quality += [_accuracy(data, label, first, arm) for label, arm in others.items()]
    return {"time": time, "accuracy": quality}


def _bar(label: str, arms: tuple[str, str], found: Interval | NotEstimable) -> Json:
    bar: Json = {"label": label, "arms": list(arms)}
    if isinstance(found, NotEstimable):
        return bar | {"not_estimable": found.reason}
    return bar | {"estimate": found.estimate, "low": found.low, "high": found.high}


def _aa_time(arm: str, aa: Json | None) -> Json:
    interval = aa["interval"] if aa else {}
    names = ("estimate", "low", "high")
    ends = {name: math.exp(interval[name]) for name in names if interval.get(name) is not None}
    if len(ends) < len(names):
        return _bar("A/A", (arm, arm), NotEstimable("no A/A control was judged"))
    return {"label": "A/A", "arms": [arm, arm], **ends}


def _time(plan: Plan, data: Scored, label: str, arms: tuple[str, str]) -> Json:
    estimand = Estimand(kind="log_ratio", of=decode_clock(plan), arms=arms, cluster="block")
    return _bar(label, arms, measure(estimand, data, data.blocks.timing, LEVEL).interval)


def _accuracy(data: Scored, label: str, first: str, second: str) -> Json:
    estimand = Estimand(kind="mean_diff", of="correct", arms=(first, second), cluster="item")
    return _bar(
        label, (first, second), measure(estimand, data, data.blocks.quality, LEVEL).interval
    )


def _aa_accuracy(data: Scored, arm: str) -> Json:
    """The arm's first visit of each item against its second."""
    pairs = Pairs([], [], [])
    for item in data.items_of(data.blocks.quality):
        trials = data.trials.get((item, arm), [])
        if len(trials) > 1:
            pairs.cluster.append(item)
            pairs.a.append(right(trials[0]))
            pairs.b.append(right(trials[1]))
    return _bar("A/A", (arm, arm), paired_accuracy(pairs, LEVEL))


def positions(data: Scored, arms: Collection[str], quantity: str) -> list[Json]:
    """Return each arm's mean log time at each position, beside its own mean over the block."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for block in sorted(data.blocks.timing):
        for arm in arms:
            visits = data.visits_of(arm, [block])
            if len(visits) > 1:
                middle = mean_log(visits, quantity)
                for visit in visits:
                    found[visit["position"], arm].append(mean_log([visit], quantity) - middle)
    rows = []
    for (position, arm), logs in sorted(found.items()):
        interval = cr2_interval(logs, [1.0] * len(logs), confidence=LEVEL)
        if isinstance(interval, Interval):
            row: Json = {"position": position, "arm": arm, "log_ratio_to_block": interval.estimate}
            rows.append(row | {"low": interval.low, "high": interval.high, "blocks": len(logs)})
    return rows
