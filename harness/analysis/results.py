"""Named results. Every number in them is finite or an open end; an unknown is `NotEstimable`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from harness.analysis.errors import NotEstimable

Alternative = Literal["two-sided", "greater", "less"]
Side = Literal["both", "lower", "upper"]
SMALLEST_P = 5e-324


@dataclass(frozen=True)
class Interval:
    """A confidence interval on the scale of its estimate."""

    estimate: float
    low: float
    """−inf where the interval is open downwards."""
    high: float
    """+inf where the interval is open upwards."""
    confidence: float
    """Nominal coverage, such as 0.95 (for a one-sided bound, of that bound)."""
    method: str
    df: float | None
    """Degrees of freedom of the t quantile; None for methods without one."""
    clusters: int

    def __post_init__(self) -> None:
        if any(math.isnan(x) for x in (self.estimate, self.low, self.high)):
            raise AssertionError("an interval never holds a nan; use NotEstimable")

    @property
    def degenerate(self) -> bool:
        """Whether it has no width: the clusters showed no variation at all."""
        return self.low == self.high

    def exponentiated(self) -> Interval | NotEstimable:
        """Return the interval of exp(x): a mean log ratio becomes a ratio."""
        try:
            point, low, high = (math.exp(x) for x in (self.estimate, self.low, self.high))
        except OverflowError:
            return NotEstimable("the interval overflows double precision")
        return replace(self, estimate=point, low=low, high=high, method=f"{self.method}-log")


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its deciding interval, on the reporting scale of its estimand."""

    estimand: str
    estimate: float
    interval: Interval | NotEstimable
    rows: int
    clusters: int
    no_effect: float | None
    """The value that says "no difference": 0 for differences, 1 for ratios, None for a share."""
    degenerate: bool
    """Whether the clusters showed no variation: such an interval decides no equivalence."""
    top_cluster_share: float | None
    """Share of the squared residuals that one cluster alone contributes; None if there are none."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestResult:
    """A p-value with where it came from."""

    __test__ = False  # not a test class for pytest

    p: float
    statistic: float | None
    """None where it is undefined (0/0) or where the test has none."""
    method: str
    alternative: Alternative
    clusters: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise AssertionError(f"a p-value lies in (0, 1], not {self.p}")


def proper_p(p: float) -> float:
    """Return p inside (0, 1]: a tail that underflows is tiny, never zero."""
    return min(1.0, max(p, SMALLEST_P))
