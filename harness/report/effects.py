"""Figures of what happens inside a block and inside a draft: place by place."""

from __future__ import annotations

import math
from typing import Any

from harness.report import canvas
from harness.report.arms import arms
from harness.report.canvas import INK, MUTED, PAPER, RULE, TONES, Figure
from harness.report.format import finite, fixed, number, plural
from harness.report.grid import Cell, Column, Grid, Row
from harness.report.quantity import Quantity, part, quantity, rows, show
from harness.report.series import Point
from harness.store.canonical import Json

WIDTH = 8.6
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_COLOURS = (TONES["held"], TONES["failed"], TONES["inconclusive"], INK, MUTED)


def places(analysis: Json) -> dict[str, list[Quantity]]:
    """Return every drafting arm's acceptance at places 1, 2, … of a draft."""
    found = {
        name: [_place(row) for row in rows(arm, "acceptance_by_place")]
        for name, arm in arms(analysis).items()
    }
    return {
        name: seen for name, seen in found.items() if any(one.estimate is not None for one in seen)
    }


def _place(row: Json) -> Quantity:
    kept, tried = finite(row.get("kept")), finite(row.get("tried"))
    if kept is None or not tried:
        return Quantity(reason="never tried")
    return Quantity(kept / tried, k=kept, n=tried)


def acceptance_by_place(analysis: Json) -> Figure:
    """Return which share of the tokens tried at each place of a draft was kept."""
    title = "Acceptance by place in the draft"
    found = places(analysis)
    if not found:
        return canvas.undrawn("places", title, "not recorded: no arm has acceptance by place")

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for index, (name, seen) in enumerate(found.items()):
            spots = [
                (at, one.estimate) for at, one in enumerate(seen, 1) if one.estimate is not None
            ]
            shift = _shift(index, len(found))
            _points(axis, [(at + shift, 100 * share) for at, share in spots], name, index)
        axis.set_xticks(range(1, 1 + max(len(seen) for seen in found.values())))
        axis.set_xlabel("place in the draft")
        axis.set_ylabel("kept of those tried, %")
        axis.margins(x=0.06, y=0.2)
        _legend(axis)

    caption = (
        "The share kept of those tried at that place, that is, where every earlier place was kept. "
        "Tokens of one item are not independent, so no interval is drawn. "
        "The axis does not start at zero."
    )
    return canvas.drawn("places", title, caption, (WIDTH, 3.0), draw)


def places_grid(analysis: Json) -> Grid:
    """Return acceptance by place as a table, one row per place."""
    found = places(analysis)
    columns = (Column("place", "Place"), *(Column(name, name, right=True) for name in found))
    most = max((len(seen) for seen in found.values()), default=0)
    table = tuple(
        Row(str(at + 1), (Cell(str(at + 1)), *(_share(seen, at) for seen in found.values())))
        for at in range(most)
    )
    return Grid("places", "Acceptance by place in the draft", columns, table)


def _share(seen: list[Quantity], at: int) -> Cell:
    if at >= len(seen):
        return Cell("not drafted")
    one = seen[at]
    if one.k is None or one.n is None:
        return Cell("never tried")
    return Cell(show(one, "share").estimate, note=f"{fixed(one.k, 0)}/{fixed(one.n, 0)}")


def position_effect(analysis: Json) -> Figure:
    """Return how visits at each position differ from their block, per arm."""
    title = "Position within the block"
    found: dict[str, list[tuple[float, Quantity]]] = {}
    for row in rows(part(analysis, "series"), "positions"):
        position, value = finite(row.get("position")), _position(row)
        if position is not None and value.estimate is not None:
            found.setdefault(str(row.get("arm") or "unnamed"), []).append((position, value))
    if not found:
        return canvas.undrawn("positions", title, "not recorded: no effect of the position")

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        axis.axhline(0, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
        for index, (name, seen) in enumerate(found.items()):
            shift = _shift(index, len(found))
            for at, value in seen:
                if value.bounds is not None:
                    style = {"color": _colour(index), "lw": 1.6, "solid_capstyle": "butt"}
                    axis.plot([at + shift] * 2, value.bounds, **style)
            spots = [(at + shift, value.estimate or 0.0) for at, value in seen]
            _points(axis, spots, name, index, line=False)
        axis.set_xticks(sorted({at for seen in found.values() for at, _ in seen}))
        axis.xaxis.set_major_formatter(lambda at, _: f"{at:g}")
        axis.set_xlabel("position in the block, in order of visit")
        axis.set_ylabel("log ratio to the block")
        axis.margins(x=0.08, y=0.15)
        _legend(axis)

    caption = (
        "Mean log ratio of a visit's time to its block, by position and arm, with intervals; "
        "the dashed line is no effect of the position."
    )
    return canvas.drawn("positions", title, caption, (WIDTH, 3.0), draw)


def _position(row: Json) -> Quantity:
    return quantity(
        {
            "estimate": row.get("log_ratio_to_block"),
            "low": row.get("low"),
            "high": row.get("high"),
        }
    )


def sorted_blocks(seen: list[Point], clock: str) -> Figure:
    """Return the speed-up of every block, from the smallest to the largest."""
    title = "Speed-up of each block, sorted"
    if not seen:
        return canvas.undrawn("sorted", title, "not recorded: the analysis holds no block series")
    ratios = sorted(math.exp(point.log_ratio) for point in seen)

    def draw(figure: Any) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axis = figure.subplots()
        axis.set_yscale("log")
        axis.axhline(1, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
        axis.vlines(range(1, len(ratios) + 1), 1, ratios, color=RULE, lw=1.2, zorder=1)
        _points(axis, list(enumerate(ratios, 1)), None, 0, line=False)
        ends = sorted({1.0, ratios[0], ratios[-1]}, key=lambda end: (end != 1.0, -abs(end - 1.0)))
        ticks: list[float] = []
        span = max(1.0, ratios[-1]) / min(1.0, ratios[0])
        for end in ends:
            if all(abs(math.log(end / tick)) > 0.12 * math.log(span) for tick in ticks):
                ticks.append(end)
        axis.set_yticks(ticks, [f"{number(tick)}×" if tick != 1 else "1×" for tick in ticks])
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.tick_params(axis="y", which="minor", length=0)
        axis.set_xticks([1, len(ratios)] if len(ratios) > 1 else [1])
        axis.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
        axis.set_xlabel("block, sorted")
        axis.set_ylabel(f"ratio of {clock} time")
        axis.margins(x=0.02, y=0.12)

    above = sum(ratio > 1 for ratio in ratios)
    caption = (
        f"In {above} of {plural(len(ratios), 'block')} the ratio lies above 1, the dashed line; "
        "the axis is logarithmic."
    )
    return canvas.drawn("sorted", title, caption, (WIDTH, 2.4), draw)


def _shift(index: int, total: int) -> float:
    return 0.12 * (index - (total - 1) / 2) / max(1.0, total / 3)


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _points(
    axis: Any, spots: list[tuple[float, float]], name: str | None, index: int, *, line: bool = True
) -> None:
    colour = _colour(index)
    xs, ys = [x for x, _ in spots], [y for _, y in spots]
    if line:
        axis.plot(xs, ys, color=colour, lw=0.8, alpha=0.5, zorder=2)
    face = colour if index % 2 == 0 else PAPER
    style = {"ms": 6, "mew": 1.3, "mec": colour, "mfc": face, "zorder": 3}
    label = None if name is None else canvas.label(name)
    axis.plot(xs, ys, _MARKS[index % len(_MARKS)], label=label, **style)


def _legend(axis: Any) -> None:
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, fontsize=8)
