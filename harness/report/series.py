"""The block series behind the figure over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.report.format import finite
from harness.report.quantity import Quantity, part, rows
from harness.report.verdicts import Verdict
from harness.store.canonical import Json

NEAR = 0.01
"""How far the plain mean of the blocks may lie from the estimate that is drawn over them."""


@dataclass(frozen=True)
class Point:
    """The pair's log ratio in one block."""

    block: int
    log_ratio: float
    launch: int | None
    order: str


def points(analysis: Json, clock: str) -> list[Point]:
    """Return the log ratio of every block by `cpu` or `wall` clock."""
    found = []
    for row in rows(part(analysis, "series"), "pair"):
        block, value = finite(row.get("block")), finite(row.get(f"log_ratio_{clock}"))
        launch = finite(row.get("launch"))
        if block is not None and value is not None:
            order = str(row.get("order") or "").upper()
            found.append(Point(int(block), value, None if launch is None else int(launch), order))
    return found


def centre(seen: list[Point], found: list[Verdict]) -> Quantity:
    """Return the mean log ratio, with the interval of the prediction that is about it."""
    mean = math.fsum(point.log_ratio for point in seen) / len(seen)
    for verdict in found:
        estimand, known = part(verdict.data, "estimand"), verdict.found
        is_time = str(estimand.get("of", "")).endswith("seconds")
        if estimand.get("kind") != "log_ratio" or not is_time or not known.estimate:
            continue
        if min(known.known) > 0 and abs(math.log(known.estimate) - mean) < NEAR:
            ends = [known.estimate, known.low, known.high]
            estimate, low, high = (None if end is None else math.log(end) for end in ends)
            return Quantity(estimate, low, high)
    return Quantity(mean)
