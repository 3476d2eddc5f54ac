"""A number of an analysis with its interval, read tolerantly: absent is absent, never zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.format import (
    NOT_RECORDED,
    decimals_beside,
    finite,
    fixed,
    missing,
    number,
    scaled,
)
from harness.store.canonical import Json


@dataclass(frozen=True)
class Quantity:
    """An estimate, its interval, the counts behind it, and why it is missing if it is."""

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    k: float | None = None
    n: float | None = None
    reason: str | None = None
    recorded: bool = True

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both ends of the interval, where both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def known(self) -> list[float]:
        """Whichever of estimate, low and high are known."""
        return [part for part in (self.estimate, self.low, self.high) if part is not None]


def part(source: object, key: str) -> Json:
    """Return the JSON object under `key`, or an empty one."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, dict) else {}


def rows(source: object, key: str) -> list[Json]:
    """Return the list of JSON objects under `key`; anything else is left out."""
    value = source.get(key) if isinstance(source, dict) else None
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def quantity(value: object) -> Quantity:
    """Read a number, `{estimate, low, high}`, `{k, n, low, high}` or `{not_estimable: why}`.

    A record that keeps these under `interval`, as the A/A control's does, is read there.
    """
    if value is None:
        return Quantity(recorded=False)
    if not isinstance(value, dict):
        return Quantity(finite(value))
    if isinstance(value.get("interval"), dict):
        return quantity(value["interval"])
    k, n = finite(value.get("k")), finite(value.get("n"))
    estimate = finite(value.get("estimate", value.get("value")))
    if estimate is None and k is not None and n:
        estimate = k / n
    reason = value.get("reason") or value.get("not_estimable")
    return Quantity(
        estimate,
        finite(value.get("low")),
        finite(value.get("high")),
        k,
        n,
        str(reason) if reason else None,
    )


SMALLEST_P = 1e-4
"""Below this a p-value is printed as smaller than it: its digits say nothing more."""


@dataclass(frozen=True)
class Shown:
    """A quantity as text: the estimate with its unit, and the interval that goes with it."""

    estimate: str
    interval: str

    @property
    def line(self) -> str:
        """Both in one line."""
        return f"{self.estimate} {self.interval}" if self.interval else self.estimate


def _end(value: float | None, decimals: int, factor: float) -> str:
    return "unbounded" if value is None else fixed(value * factor, decimals)


def show(found: Quantity, unit: str = "", beside: Sequence[float | None] = ()) -> Shown:
    """Return `found` as text; no figure is rounded across or onto a bound in `beside`."""
    if unit == "p" and found.estimate is not None:
        return Shown(_p_value(found.estimate), "")
    factor, suffix = scaled(unit)
    values = [value * factor for value in found.known]
    bounds = [bound * factor for bound in beside if bound is not None]
    limits = [0.0, 100.0] if unit == "share" else []
    decimals = decimals_beside(values, [*bounds, *limits])
    interval = ""
    if found.low is not None or found.high is not None:
        ends = (_end(end, decimals, factor) for end in (found.low, found.high))
        interval = f"[{', '.join(ends)}]"
    if found.estimate is None:
        words = missing(found.reason) if found.recorded or found.reason else NOT_RECORDED
        return Shown(words, interval)
    return Shown(f"{fixed(found.estimate * factor, decimals)}{suffix}", interval)


def _p_value(value: float) -> str:
    """Return a p-value as it is usually printed; it is no estimate and has no interval."""
    return f"p = {number(value, 2)}" if value >= SMALLEST_P else f"p < {SMALLEST_P:g}"
