"""Where two arms' token ids part, and whether the engine had nearly tied there."""

from __future__ import annotations

from collections.abc import Collection

from harness.analysis import Interval, exact_interval, wilson_interval
from harness.measure.scored import Scored
from harness.store.canonical import Json


def first_divergence(left: list[int], right: list[int]) -> int | None:
    """Return the first position at which two token lists differ, the shorter one's end included."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return None if len(left) == len(right) else min(len(left), len(right))


def same_tokens(left: Json, right: Json) -> bool:
    """Whether two trials ended well with the same token ids."""
    ended_well = left["status"] == right["status"] == "ok"
    return bool(ended_well and left["token_ids"] == right["token_ids"])


def compare(data: Scored, baseline: str, arm: str, items: Collection[str], near_tie: float) -> Json:
    """Count items with equal token ids, and divergences explained by a near tie of the baseline.

    A near tie is a position whose top two logits lie closer than `near_tie`, the engine's measured
    rounding bound; there, rounding alone may choose the other token.
    """
    same = total = near = 0
    matched = tokens = 0
    for item in items:
        left, right = data.first(item, baseline), data.first(item, arm)
        if left is None or right is None:
            continue
        total += 1
        where = first_divergence(left["token_ids"], right["token_ids"])
        tokens += len(left["token_ids"])
        matched += len(left["token_ids"]) if where is None else where
        same += where is None
        near += where is not None and _tied(left, where, near_tie)
    return _ends(same, total) | {
        "k": same,
        "n": total,
        "near_ties": near,
        "unexplained": total - same - near,
        "matched_tokens": matched,
        "tokens": tokens,
    }


def _ends(same: int, total: int) -> Json:
    """Wilson's interval of the share, and the exact one-sided 95 % bound on the share that differs.

    That all of a few items agree is no proof: of 50, up to 5.8 % may differ.
    """
    interval, differing = wilson_interval(same, total), exact_interval(total - same, total, "0.9")
    if not isinstance(interval, Interval) or not isinstance(differing, Interval):
        return {}
    return {"low": interval.low, "high": interval.high, "differ_at_most": differing.high}


def _tied(trial: Json, position: int, bound: float) -> bool:
    return any(where == position and margin < bound for where, margin in trial.get("near_ties", []))
