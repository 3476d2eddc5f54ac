"""What can be seen of an arm's engine: a client of a server sees no CPU time and no cache sizes."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plan.schema import Plan

BLIND = frozenset({"http"})
"""Backends that know wall times and tokens, but neither CPU time nor cache sizes."""


def tells_cpu_time(plan: Plan) -> bool:
    """Whether CPU time is known of every arm."""
    return not any(arm.backend in BLIND for arm in plan.arms.values())


def decode_clock(plan: Plan) -> str:
    """Return the quantity that figures compare: CPU time, wall time where an arm hides it."""
    return "decode_cpu_seconds" if tells_cpu_time(plan) else "decode_seconds"


def unseen(plan: Plan) -> Iterator[str]:
    """Yield a sentence for everything that a plan predicts or selects by and nobody can see."""
    for prediction in plan.predictions:
        of = prediction.estimand.of
        names = [name for name in prediction.estimand.arms if name in plan.arms]
        blind = [name for name in names if plan.arms[name].backend in BLIND]
        if blind and _hidden(of):
            yield (
                f"predictions.{prediction.id}.estimand.of: {of} can't be seen of {blind[0]}, a "
                f"server behind {plan.arms[blind[0]].backend}; predict wall time "
                "(decode_seconds) or tokens instead"
            )
    yield from _unseen_by_selection(plan)


def _unseen_by_selection(plan: Plan) -> Iterator[str]:
    blind = [name for name, arm in plan.arms.items() if arm.backend in BLIND]
    if plan.selection is None or not blind:
        return
    rule = plan.selection.rule
    metrics = [rule.maximize, rule.minimize, *(one.metric for one in rule.subject_to)]
    for metric in metrics:
        if metric is not None and _hidden(metric):
            yield (
                f"selection.rule: {metric} can't be seen of {blind[0]}, a server behind "
                f"{plan.arms[blind[0]].backend}; select by tokens_per_second instead"
            )


def _hidden(quantity: str) -> bool:
    return "_cpu_" in f"_{quantity}_" or quantity == "cache_bytes"
