"""One interval against its region, as a small drawing that sits in a table cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from harness.report.quantity import Quantity

WIDTH, HEIGHT, PAD = 176.0, 26.0, 8.0
_MIDDLE = HEIGHT / 2


@dataclass(frozen=True)
class Scale:
    """Maps values onto the strip; logarithmic for ratios."""

    low: float
    high: float
    is_log: bool

    def __call__(self, value: float) -> float:
        """Return the x coordinate of `value`, clipped to the strip."""
        if self.is_log and value <= 0:
            return 0.0
        spot = math.log(value) if self.is_log else value
        share = (spot - self.low) / (self.high - self.low)
        return round(min(max(PAD + share * (WIDTH - 2 * PAD), 0.0), WIDTH), 2)


def scale_for(found: Quantity, bounds: list[float], *, is_log: bool) -> Scale:
    """Return the scale on which interval and region are both seen."""
    values = [*found.known, *bounds]
    is_log = is_log and all(value > 0 for value in values)
    spots = [math.log(value) if is_log else value for value in values] or [0.0]
    low, high = min(spots), max(spots)
    room = (high - low) * 0.12 or max(abs(high) * 0.1, 0.1)
    return Scale(low - room, high + room, is_log)


def _band(place: Callable[[float], float], low: float | None, high: float | None) -> str:
    left = 0.0 if low is None else place(low)
    right = WIDTH if high is None else place(high)
    edges = "".join(
        f'<line class="edge" x1="{x:g}" x2="{x:g}" y1="1" y2="{HEIGHT - 1:g}"/>'
        for x, bound in ((left, low), (right, high))
        if bound is not None
    )
    width = max(right - left, 0)
    shape = f'x="{left:g}" y="1" width="{width:g}" height="{HEIGHT - 2:g}"'
    return f'<rect class="band" {shape}/>{edges}'


def _whisker(place: Callable[[float], float], found: Quantity) -> str:
    if found.low is None and found.high is None:
        return ""
    left = 0.0 if found.low is None else place(found.low)
    right = WIDTH if found.high is None else place(found.high)
    ends = "".join(
        f'<line x1="{x:g}" x2="{x:g}" y1="{_MIDDLE - 4:g}" y2="{_MIDDLE + 4:g}"/>'
        for x, end in ((left, found.low), (right, found.high))
        if end is not None
    )
    return f'<line x1="{left:g}" x2="{right:g}" y1="{_MIDDLE:g}" y2="{_MIDDLE:g}"/>{ends}'


def _mark(x: float, word: str) -> str:
    y = _MIDDLE
    if word == "failed":
        return f'<path class="dot" d="M{x:g} {y - 5.5:g}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>'
    if word == "void":
        return f'<path d="M{x - 4:g} {y - 4:g}l8 8m0 -8l-8 8"/>'
    kind = "dot" if word == "held" else "ring"
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="4.5"/>'


def strip(
    found: Quantity,
    region: tuple[float | None, float | None],
    word: str,
    label: str,
    *,
    is_log: bool,
) -> Markup:
    """Return the drawing: region as a band, interval as a whisker, estimate as the word's mark."""
    low, high = region
    if not found.known:
        return Markup()
    place = scale_for(found, [b for b in region if b is not None], is_log=is_log)
    mark = "" if found.estimate is None else _mark(place(found.estimate), word)
    return Markup(
        '<svg class="strip {}" viewBox="0 0 {:g} {:g}" width="{:g}" height="{:g}" role="img"'
        ' aria-label="{}">{}{}{}</svg>'
    ).format(
        word,
        WIDTH,
        HEIGHT,
        WIDTH,
        HEIGHT,
        label,
        Markup(_band(place, low, high)),  # noqa: S704 - numbers only
        Markup(_whisker(place, found)),  # noqa: S704 - numbers only
        Markup(mark),  # noqa: S704 - numbers only
    )
