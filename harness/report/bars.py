"""Three comparisons at a glance: A/A, A/B and A/known-bad, for time and for accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from harness.report.escape import one_line
from harness.report.format import MINUS, NOT_RECORDED, finite, listed
from harness.report.grid import NO_DRAWING, Cell, Column, Grid, Row
from harness.report.quantity import Quantity, part, quantity, rows, show
from harness.report.strip import Scale, scale_for
from harness.report.verdicts import percent
from harness.store.canonical import Json

KINDS = (
    ("time", "Decode CPU time, baseline over treated", "ratio", 1.0),
    ("accuracy", "Accuracy, treated minus baseline", "share_difference", 0.0),
)
HEIGHT = 24.0
_MIDDLE = HEIGHT / 2


@dataclass(frozen=True)
class Bar:
    """One comparison of two arms."""

    label: str
    arms: str
    found: Quantity
    unit: str
    level: float | None
    drawing: Markup = NO_DRAWING

    @property
    def tone(self) -> str:
        """The look: a control's, a patched arm's, or the baseline's."""
        if "bad" in self.label:
            return "failed"
        return "strong" if self.label == "A/A" else "held"

    @property
    def cell(self) -> Cell:
        """Estimate over interval, or why there is none."""
        text = show(self.found, self.unit)
        return Cell(text.estimate, note=text.interval)


@dataclass(frozen=True)
class Panel:
    """The comparisons of one measure on one scale."""

    key: str
    title: str
    bars: tuple[Bar, ...]
    axis: Markup


def panels(analysis: Json) -> list[Panel]:
    """Return one panel per measure that the analysis has comparisons of."""
    source = part(analysis, "bars")
    return [_panel(*kind, found) for kind in KINDS if (found := rows(source, kind[0]))]


def _panel(key: str, title: str, unit: str, line: float, entries: list[Json]) -> Panel:
    bars = {bar.label: bar for bar in (_bar(entry, unit) for entry in reversed(entries))}
    seen = tuple(reversed(bars.values()))
    values = [value for bar in seen for value in bar.found.known]
    place = scale_for(Quantity(), [line, *values], is_log=unit == "ratio")
    drawn = tuple(
        Bar(bar.label, bar.arms, bar.found, bar.unit, bar.level, _drawing(bar, place, line))
        for bar in seen
    )
    return Panel(key, title, drawn, _axis(place, line, values, unit) if values else Markup())


def _bar(entry: Json, unit: str) -> Bar:
    named = entry.get("arms")
    arms = one_line(" against ".join(str(arm) for arm in named)) if isinstance(named, list) else ""
    level = finite(entry.get("confidence_level"))
    return Bar(one_line(entry.get("label") or "unnamed"), arms, quantity(entry), unit, level)


def _drawing(bar: Bar, place: Scale, line: float) -> Markup:
    if bar.found.estimate is None:
        return Markup()
    zero, end = place(line), place(bar.found.estimate)
    left, width = min(zero, end), abs(end - zero)
    shape = f'<rect class="body" x="{left:g}" y="5" width="{width:g}" height="{HEIGHT - 10:g}"/>'
    middle = f'<line class="zero" x1="{zero:g}" x2="{zero:g}" y1="0" y2="{HEIGHT:g}"/>'
    spot = f'<circle class="dot" cx="{end:g}" cy="{_MIDDLE:g}" r="3"/>'
    text = show(bar.found, bar.unit).line
    return _svg(f"{bar.label}: {text}", HEIGHT, shape + middle + _whisker(bar.found, place) + spot)


def _whisker(found: Quantity, place: Scale) -> str:
    if found.bounds is None:
        return ""
    low, high = (place(end) for end in found.bounds)
    caps = "".join(
        f'<line x1="{x:g}" x2="{x:g}" y1="{_MIDDLE - 4:g}" y2="{_MIDDLE + 4:g}"/>'
        for x in (low, high)
    )
    return f'<line x1="{low:g}" x2="{high:g}" y1="{_MIDDLE:g}" y2="{_MIDDLE:g}"/>{caps}'


def _axis(place: Scale, line: float, values: list[float], unit: str) -> Markup:
    spots = [line, *_ticks(min(values), max(values), line, is_log=place.is_log)]
    shown: list[tuple[float, str]] = []
    for spot in spots:
        x = place(spot)
        if all(abs(x - other) > 34 for other, _ in shown):
            shown.append((x, _tick(spot, unit)))
    parts = "".join(
        f'<line class="zero" x1="{x:g}" x2="{x:g}" y1="0" y2="4"/>'
        f'<text x="{x:g}" y="15" text-anchor="{_anchor(x)}">{text}</text>'
        for x, text in sorted(shown)
    )
    return _svg("axis", 18, parts)


def _anchor(x: float) -> str:
    return "start" if x < 16 else "end" if x > 160 else "middle"


def _tick(spot: float, unit: str) -> str:
    if unit == "ratio":
        return f"{spot:g}×"
    return f"{100 * spot:g}".replace("-", MINUS) if spot else "0"


def _ticks(low: float, high: float, line: float, *, is_log: bool) -> list[float]:
    if is_log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        round_ones = [float(f"{step}e{power}") for power in powers for step in (1, 2, 5)]
        return [spot for spot in round_ones if low <= spot <= high]
    reach = max(high - line, line - low) or 1.0
    power = 10.0 ** math.floor(math.log10(reach))
    step = next(step for step in (5, 2, 1) if step * power <= reach * 1.0001) * power
    return [spot for spot in (line - step, line + step) if low <= spot <= high]


def _svg(label: str, height: float, body: str) -> Markup:
    return Markup(
        '<svg class="bar" viewBox="0 0 176 {:g}" width="176" height="{:g}" role="img"'
        ' aria-label="{}">{}</svg>'
    ).format(height, height, label, Markup(body))  # noqa: S704 - numbers only


def bars_note(found: list[Panel]) -> str:
    """Return how the bars are to be read."""
    levels = {bar.level for panel in found for bar in panel.bars if bar.found.known}
    one = next(iter(levels)) if len(levels) == 1 else None
    interval = "intervals" if one is None else f"{percent(one)} intervals"
    return (
        f"Bars start where the arms would be equal; whiskers are {interval}. "
        "A/A is what the measurement finds where nothing differs; A/known-bad is what it finds "
        "where something is known to be wrong."
    )


def bars_grid(found: list[Panel]) -> Grid:
    """Return the comparisons as one table, a column per measure."""
    columns = (
        Column("label", "Comparison"),
        *(Column(panel.key, panel.title, right=True) for panel in found),
    )
    labels = dict.fromkeys(bar.label for panel in found for bar in panel.bars)
    return Grid("bars", "Three comparisons", columns, tuple(_row(name, found) for name in labels))


def _row(label: str, found: list[Panel]) -> Row:
    chosen = [[bar for bar in panel.bars if bar.label == label] for panel in found]
    arms = dict.fromkeys(bar.arms for bars in chosen for bar in bars if bar.arms)
    values = tuple(bars[0].cell if bars else Cell(NOT_RECORDED) for bars in chosen)
    return Row(label, (Cell(label, note=listed(list(arms)), join=": "), *values))


def bar_numbers(analysis: Json) -> list[tuple[tuple[str, ...], Quantity, str]]:
    """Return every comparison under a name, with its unit."""
    return [
        (("bars", panel.key, bar.label), bar.found, bar.unit)
        for panel in panels(analysis)
        for bar in panel.bars
    ]
