"""Levels as decimals, ranks as integers, decisions on twelve digits.

Binary floating point gives (1 − 0.95)/2 = 0.025000000000000022, which moves the 250th of 10,000
ranks to the 251st. So a level is read from its shortest decimal form and kept as a `Decimal`, and
what is compared with a region's end is first written with twelve significant digits.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from harness.analysis.errors import AnalysisError

NEAREST = Decimal("1e-12")
"""How near to 0 or 1 a level may come."""

Level = str | float | Decimal
"""A probability as a decimal string, a float (read by its shortest form) or a `Decimal`."""


def level(value: Level, name: str = "confidence") -> Decimal:
    """Return a probability strictly between 0 and 1 as an exact decimal.

    >>> 1 - level(0.95)
    Decimal('0.05')
    """
    try:
        exact = value if isinstance(value, Decimal) else Decimal(str(value))
    except (InvalidOperation, ValueError) as error:
        raise AnalysisError(f"{name}: {value!r} is not a number") from error
    if isinstance(value, bool) or not exact.is_finite() or not NEAREST <= exact <= 1 - NEAREST:
        raise AnalysisError(f"{name}: {value!r} is outside (0, 1); write 95 % as 0.95")
    return exact


def tails(confidence: Level) -> tuple[Fraction, Fraction]:
    """Return α/2 and 1 − α/2 of a two-sided interval, exactly."""
    half = (1 - Fraction(level(confidence))) / 2
    return half, 1 - half


def percentile_ranks(resamples: int, confidence: Level) -> tuple[int, int] | None:
    """Return the 1-based ranks k = ⌊(B+1)α/2⌋ and B+1−k; None if B is too small for the level.

    >>> percentile_ranks(9999, "0.95")
    (250, 9750)
    """
    rank = math.floor((resamples + 1) * tails(confidence)[0])
    return (rank, resamples + 1 - rank) if rank >= 1 else None


def twelve_digits(value: float) -> Decimal:
    """Return the value rounded to twelve significant digits; infinities pass through.

    >>> twelve_digits(0.1 + 0.2)
    Decimal('0.3')
    """
    if math.isnan(value):
        raise AnalysisError("a nan has no decimal form")
    if math.isinf(value):
        return Decimal("Infinity" if value > 0 else "-Infinity")
    rounded = Decimal(f"{value:.11e}").normalize()
    return rounded if rounded else Decimal(0)


def round_twelve(value: float) -> float:
    """Return the float nearest to the value's twelve-digit decimal."""
    return float(twelve_digits(value))
