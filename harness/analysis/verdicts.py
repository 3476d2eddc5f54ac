"""Verdicts: an interval against a region that was frozen before the data.

`void` if a precondition broke or nothing is estimable; under rule "ci" `held` if the whole interval
lies inside the region, `failed` if none of it does, else `inconclusive`; under rule "point" the
estimate alone decides. Ends are compared as decimals of twelve digits, so rounding noise decides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from harness.analysis.arrays import choice, real
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import twelve_digits
from harness.analysis.results import Estimate, Interval

Word = Literal["held", "failed", "inconclusive", "void"]
Rule = Literal["ci", "point"]
MAX_VOID_SHARE = 0.10


@dataclass(frozen=True)
class Region:
    """Where the quantity is predicted to lie; None leaves an end open to infinity."""

    low: float | None
    high: float | None
    low_closed: bool = True
    high_closed: bool = True

    def __post_init__(self) -> None:
        low, high = self._end(self.low, "low"), self._end(self.high, "high")
        if low is None and high is None:
            raise AnalysisError("region: covers every number, so it could never fail")
        if low is not None and high is not None:
            flat = low == high and not (self.low_closed and self.high_closed)
            if low > high or flat:
                raise AnalysisError(f"region: [{low}, {high}] holds no number")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @staticmethod
    def _end(value: float | None, name: str) -> float | None:
        if value is None or value in (float("-inf") if name == "low" else float("inf"),):
            return None
        return real(value, f"region.{name}")

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite: an equivalence or a "within x %" claim."""
        return self.low is not None and self.high is not None

    def above_low(self, value: float) -> bool:
        """Whether a value satisfies the lower end."""
        return self.low is None or _beyond(value, self.low, self.low_closed)

    def below_high(self, value: float) -> bool:
        """Whether a value satisfies the upper end."""
        return self.high is None or _beyond(-value, -self.high, self.high_closed)

    def contains(self, value: float) -> bool:
        """Whether a value lies inside, to twelve digits."""
        return self.above_low(value) and self.below_high(value)


def _beyond(value: float, end: float, closed: bool) -> bool:
    left, right = twelve_digits(value), twelve_digits(end)
    return left >= right if closed else left > right


@dataclass(frozen=True)
class Verdict:
    """One prediction decided, with both rules' words and all that decided it."""

    word: Word
    rule: Rule
    by_interval: Word
    """What rule "ci" says."""
    by_point: Word
    """What rule "point" says."""
    reasons: tuple[str, ...]
    """Why it is void, or inconclusive in spite of its interval; empty otherwise."""
    estimate: str | None
    """Decimals of twelve digits, as compared; None where not estimable."""
    low: str | None
    high: str | None

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.word == "void":
            return f"void: {'; '.join(self.reasons)}"
        why = "".join(f"; {reason}" for reason in self.reasons)
        return f"{self.word}: {self.estimate} [{self.low}, {self.high}]{why}"


def decide(
    result: Estimate | Interval | NotEstimable,
    region: Region,
    rule: Rule = "ci",
    *,
    broken: Sequence[str] = (),
    no_effect: float | None = None,
) -> Verdict:
    """Return the verdict of a result against a region.

    `broken` lists preconditions that failed (see `broken_preconditions`); they void before the
    estimate is looked at. `no_effect` is the value that means "no difference" (taken from an
    `Estimate`): an interval without any width decides neither a bounded region nor one that
    contains it.
    """
    choice(rule, ("ci", "point"), "rule")
    reasons = tuple(broken)
    if isinstance(result, Estimate):
        no_effect = result.no_effect if no_effect is None else no_effect
        result = result.interval
    if isinstance(result, NotEstimable):
        return _void(rule, (*reasons, str(result)))
    if result.degenerate and _vacuous(region, no_effect):
        reasons = (*reasons, "degenerate: the clusters show no variation, so nothing is equivalent")
    if reasons:
        return _void(rule, reasons, result)
    by_interval = _by_interval(result, region)
    by_point: Word = "held" if region.contains(result.estimate) else "failed"
    word = by_interval if rule == "ci" else by_point
    return Verdict(word, rule, by_interval, by_point, (), *_decimals(result))


def _vacuous(region: Region, no_effect: float | None) -> bool:
    return region.bounded or (no_effect is not None and region.contains(no_effect))


def _by_interval(interval: Interval, region: Region) -> Word:
    """Inside needs the far ends to satisfy the region; disjoint needs a near end to violate it."""
    low_end, high_end = interval.low, interval.high
    if region.above_low(low_end) and region.below_high(high_end):
        return "held"
    if not region.above_low(high_end) or not region.below_high(low_end):
        return "failed"
    return "inconclusive"


def _void(rule: Rule, reasons: tuple[str, ...], result: Interval | None = None) -> Verdict:
    numbers = _decimals(result) if result is not None else (None, None, None)
    return Verdict("void", rule, "void", "void", reasons, *numbers)


def _decimals(interval: Interval) -> tuple[str, str, str]:
    written = [_text(x) for x in (interval.estimate, interval.low, interval.high)]
    return written[0], written[1], written[2]


def _text(value: float) -> str:
    exact = twelve_digits(value)
    if exact == Decimal("Infinity"):
        return "inf"
    return "-inf" if exact == Decimal("-Infinity") else str(exact)


def broken_preconditions(
    *,
    clusters: int,
    min_clusters: int,
    pairs: int | None = None,
    min_pairs: int = 0,
    missing_share: float = 0.0,
    max_missing_share: float = 0.0,
    void_share: float = 0.0,
    max_void_share: float = MAX_VOID_SHARE,
) -> tuple[str, ...]:
    """Return one reason per frozen precondition that the data break; shares lie in [0, 1]."""
    reasons = []
    if clusters < min_clusters:
        reasons.append(f"{clusters} clusters, needs {min_clusters}")
    if pairs is not None and pairs < min_pairs:
        reasons.append(f"{pairs} pairs, needs {min_pairs}")
    if not missing_share <= max_missing_share:
        reasons.append(f"{missing_share:.1%} missing, allows {max_missing_share:.1%}")
    if not void_share <= max_void_share:
        reasons.append(f"{void_share:.1%} of the blocks void, allows {max_void_share:.1%}")
    return tuple(reasons)


def reconcile(without_voided: Verdict, with_voided: Verdict) -> Verdict:
    """Return the verdict without voided blocks, or inconclusive if those would change it.

    A verdict that is already void stays void.
    """
    if without_voided.word in ("void", with_voided.word):
        return without_voided
    return Verdict(
        "inconclusive",
        without_voided.rule,
        without_voided.by_interval,
        without_voided.by_point,
        (f"with the voided blocks it would be {with_voided.word}",),
        without_voided.estimate,
        without_voided.low,
        without_voided.high,
    )
