"""Numbers as text: three significant digits, units, intervals, and never a NaN or a blank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MINUS = "\N{MINUS SIGN}"
THIN = "\N{NARROW NO-BREAK SPACE}"
NOT_RECORDED = "not recorded"
NOT_ESTIMABLE = "not estimable"

UNITS: dict[str, tuple[float, str]] = {
    "ratio": (1.0, "×"),
    "share": (100.0, f"{THIN}%"),
    "share_difference": (100.0, f"{THIN}pp"),
    "log_ratio": (1.0, ""),
    "p": (1.0, ""),
    "": (1.0, ""),
}
"""Unit of an analysis → factor and suffix on the page; any other unit is printed as it is."""

_BYTE_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")


def finite(value: object) -> float | None:
    """Return a finite number (also from a decimal string, as byte counts are kept), else None.

    >>> finite("123"), finite(float("nan")), finite(True)
    (123.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def decimals_for(values: Iterable[float], digits: int = 3) -> int:
    """Return how many decimals show the largest of `values` with `digits` significant digits."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest == 0:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(float(f"{largest:.{digits - 1}e}"))))


def fixed(value: float, decimals: int) -> str:
    """Return `value` with a fixed number of decimals, a true minus sign and grouped thousands.

    >>> fixed(-0.004, 2), fixed(12345.6, 0)
    ('0.00', '12\u202f346')
    """
    text = f"{abs(value):,.{decimals}f}".replace(",", THIN if abs(value) >= 9999.5 else "")
    negative = value < 0 and any(character in "123456789" for character in text)
    return (MINUS if negative else "") + text


def number(value: float, digits: int = 3) -> str:
    """Return `value` with three significant digits; whole numbers above that stay whole.

    >>> number(0.012345), number(2.0), number(1234.5)
    ('0.0123', '2.00', '1234')
    """
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{mantissa.replace('-', MINUS)}{THIN}×{THIN}10{power}"
    return fixed(value, decimals_for([value], digits))


def exact(value: float) -> str:
    """Return a frozen bound as it was typed, not rounded.

    >>> exact(1.5), exact(-0.02), exact(99.9)
    ('1.5', '−0.02', '99.9')
    """
    return f"{value:.12g}".replace("-", MINUS)


def count(value: object) -> str:
    """Return a whole number, or that it was not recorded."""
    known = finite(value)
    return NOT_RECORDED if known is None else fixed(known, 0)


def size(value: object) -> str:
    """Return a byte count with a binary unit.

    >>> size("1536")
    '1.50\u202fKiB'
    """
    known = finite(value)
    if known is None:
        return NOT_RECORDED
    step = 0
    while abs(known) >= 1024 and step < len(_BYTE_STEPS) - 1:
        known, step = known / 1024, step + 1
    return f"{number(known) if step else fixed(known, 0)}{THIN}{_BYTE_STEPS[step]}"


def scaled(unit: str) -> tuple[float, str]:
    """Return the factor and the suffix with which `unit` is printed."""
    return UNITS.get(unit, (1.0, f"{THIN}{unit}"))


def missing(reason: object = None) -> str:
    """Return the words that stand where a number can't.

    >>> missing("no block was scored")
    'not estimable: no block was scored'
    """
    return f"{NOT_ESTIMABLE}: {reason}" if reason else NOT_ESTIMABLE


def _sides_kept(values: Sequence[float], bounds: Sequence[float], decimals: int) -> bool:
    return all(
        (round(value, decimals) > bound) == (value > bound)
        and (round(value, decimals) < bound) == (value < bound)
        for value in values
        for bound in bounds
    )


def decimals_beside(values: Sequence[float], bounds: Sequence[float]) -> int:
    """Return the decimals at which rounding moves no value across or onto a bound.

    A lower limit of 1.4996 must not be printed as 1.50 beside a region that starts at 1.5.

    >>> decimals_beside([1.4996, 1.62], [1.5])
    4
    """
    start = decimals_for(values)
    for decimals in range(start, start + 4):
        if _sides_kept(values, bounds, decimals):
            return decimals
    return start + 4


def region(low: float | None, high: float | None, unit: str = "", *, is_open: bool = False) -> str:
    """Return a region as words and signs.

    >>> region(1.5, None, "ratio"), region(-0.02, 0.02), region(None, 0.5, is_open=True)
    ('≥ 1.5×', '−0.02 to 0.02', '< 0.5')
    """
    factor, suffix = scaled(unit)
    least, most = (None if bound is None else exact(bound * factor) for bound in (low, high))
    if least is not None and most is not None:
        text = f"{least} to {most}{suffix}"
        return f"strictly between {least} and {most}{suffix}" if is_open else text
    if least is not None:
        return f"{'>' if is_open else '≥'} {least}{suffix}"
    if most is not None:
        return f"{'<' if is_open else '≤'} {most}{suffix}"
    return "any value"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def plural(amount: int, noun: str) -> str:
    """Return an amount with its noun.

    >>> plural(1, "block"), plural(3, "block")
    ('1 block', '3 blocks')
    """
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def percent_round(share: float) -> str:
    """Return a share as a whole percentage.

    >>> percent_round(0.834)
    '83\u202f%'
    """
    return f"{fixed(100 * share, 0)}{THIN}%"
