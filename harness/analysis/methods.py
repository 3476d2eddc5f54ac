"""Which interval may decide, and what stands beside it, by the number of clusters planned.

Planned, not achieved: a run that loses clusters is void or not, but never changes its method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from harness.analysis.arrays import floats, whole
from harness.analysis.bootstrap import Bootstrap, percentile_bootstrap, studentised_bootstrap
from harness.analysis.enumeration import MAX_ENUMERATED, enumerated_bootstrap
from harness.analysis.errors import NotEstimable
from harness.analysis.precision import Level

MIN_CLUSTERS_PERCENTILE = 50


@dataclass(frozen=True)
class MethodPlan:
    """What decides and what is printed beside it."""

    intervals: tuple[str, ...]
    """Methods that may be registered to decide; the first is the default."""
    test: str | None
    beside: tuple[str, ...]
    banner: str | None


def methods_for(planned_clusters: int) -> MethodPlan:
    """Return the plan for G planned clusters.

    Percentile intervals cover 74–90 % at G = 8 on ordinary data, so they decide from 50 on.
    """
    whole(planned_clusters, "planned_clusters", 0, 1 << 40)
    if planned_clusters < 2:
        return MethodPlan((), None, (), "one cluster: a point value, and nothing is decided")
    if planned_clusters < 6:
        banner = f"few clusters ({planned_clusters}): no exact test reaches 5 % below 6"
        return MethodPlan(("cr2",), None, ("percentile-enumerated",), banner)
    if planned_clusters < 10:
        return MethodPlan(("cr2",), "sign-flip", ("percentile-enumerated",), None)
    if planned_clusters < MIN_CLUSTERS_PERCENTILE:
        return MethodPlan(("cr2",), "sign-flip", ("studentised", "percentile"), None)
    return MethodPlan(("cr2", "percentile"), "sign-flip", ("studentised",), None)


def beside(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    planned_clusters: int,
    *,
    key: bytes,
    confidence: Level = "0.95",
    log: bool = False,
) -> dict[str, Bootstrap | NotEstimable]:
    """Return the intervals printed beside the deciding one, by name, from per-cluster sums.

    Enumerated methods are not estimable if more than ten clusters came.
    """
    found: dict[str, Bootstrap | NotEstimable] = {}
    for name in methods_for(planned_clusters).beside:
        if name == "percentile":
            one = percentile_bootstrap(numerator, denominator, key=key, confidence=confidence)
        elif name == "studentised":
            one = studentised_bootstrap(
                numerator, denominator, key=key, confidence=confidence, log=log
            )
        elif len(floats(numerator, "numerator")) <= MAX_ENUMERATED:
            one = enumerated_bootstrap(numerator, denominator, confidence=confidence)
        else:
            one = NotEstimable(f"more than {MAX_ENUMERATED} clusters cannot be enumerated")
        found[name] = one
    return found
