"""The figures of a run, each drawn from its analysis or saying why it can't be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from harness.report import canvas
from harness.report.arms import arms, per_token
from harness.report.canvas import BAND, INK, MARKS, MUTED, PAPER, ROLES, RULE, TONES, Figure
from harness.report.costs import PARTS, Cost, cost
from harness.report.effects import acceptance_by_place, position_effect, sorted_blocks
from harness.report.format import finite, fixed, number, region
from harness.report.quantity import Quantity, part, quantity, show
from harness.report.series import Point, centre, points
from harness.report.verdicts import Verdict, verdicts
from harness.store.canonical import Json

WIDTH = 8.6
Panels = dict[str, dict[str, Quantity]]


def figures(analysis: Json, plan_json: Json) -> list[Figure]:
    """Return the run's figures in reading order."""
    found = verdicts(analysis, plan_json)
    return [
        forest(found),
        over_time(analysis, found),
        sorted_blocks(*_series(analysis)),
        position_effect(analysis),
        decomposition(analysis),
        acceptance_by_place(analysis),
        cost_model(analysis),
        control(analysis),
    ]


def forest(found: list[Verdict]) -> Figure:
    """Return every interval against its region, one line per prediction, each on its own scale."""
    title = "Predictions: intervals against regions"
    seen = [verdict for verdict in found if verdict.found.known]
    if not seen:
        return canvas.undrawn("forest", title, "not estimable: no prediction has an estimate")

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(seen), 1, squeeze=False)[:, 0]
        for axis, verdict in zip(axes, seen, strict=True):
            _forest_line(axis, verdict)

    caption = (
        "The band is the frozen region, the whisker the interval, the mark the estimate: "
        "disc held, diamond failed, ring inconclusive, cross void. Each line has its own scale."
    )
    return canvas.drawn("forest", title, caption, (WIDTH, 0.55 + 0.72 * len(seen)), draw)


def _forest_line(axis: Any, verdict: Verdict) -> None:
    values = [*verdict.found.known, *(end for end in verdict.region if end is not None)]
    is_log = verdict.is_log and min(values) > 0
    room = _room(values, is_log)
    edges = [room[side] if end is None else end for side, end in enumerate(verdict.region)]
    axis.axvspan(*edges, color=BAND, lw=0)
    for end in verdict.region:
        if end is not None:
            axis.axvline(end, color=MUTED, lw=0.8)
    _whisker(axis, verdict.found, 0.0, TONES[verdict.word], MARKS[verdict.word], room)
    if is_log:
        axis.set_xscale("log")
    axis.set_xlim(*room)
    axis.set_ylim(-1, 1)
    _ticks(axis, sorted({*room, *(end for end in verdict.region if end is not None)}), verdict)
    axis.set_yticks([0], [canvas.label(verdict.id)])
    axis.tick_params(axis="y", length=0, labelsize=10, labelcolor=INK)
    axis.spines["left"].set_visible(False)
    _beside(axis, f"{' '.join(verdict.shown)}\n{verdict.word}")


def _ticks(axis: Any, spots: Sequence[float], verdict: Verdict) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    inner = [spot for spot in spots if spot in verdict.region] or list(spots)
    texts = [region(spot, None, verdict.unit).removeprefix("≥ ") for spot in inner]
    axis.set_xticks(inner, texts)


def _room(values: Sequence[float], is_log: bool) -> tuple[float, float]:
    spots = [math.log(value) for value in values] if is_log else list(values)
    low, high = min(spots), max(spots)
    room = (high - low) * 0.15 or max(abs(high) * 0.1, 0.01)
    ends = (low - room, high + room)
    return (math.exp(ends[0]), math.exp(ends[1])) if is_log else ends


def _whisker(
    axis: Any,
    found: Quantity,
    y: float,
    colour: str,
    mark: str = "o",
    room: tuple[float, float] | None = None,
) -> None:
    ends = [found.low, found.high]
    if room is not None and ends != [None, None]:
        ends = [room[side] if end is None else end for side, end in enumerate(ends)]
    if None not in ends:
        axis.plot(ends, [y, y], color=colour, lw=1.8, solid_capstyle="butt")
    if found.estimate is not None:
        face = PAPER if (mark, colour) == ("o", TONES["inconclusive"]) else colour
        style = {"ms": 6.5, "mew": 1.6, "mec": colour, "mfc": face, "zorder": 3}
        axis.plot([found.estimate], [y], mark, **style)


def _beside(axis: Any, text: str) -> None:
    axis.annotate(
        text,
        (1.02, 0.5),
        xycoords="axes fraction",
        va="center",
        fontsize=8,
        linespacing=1.4,
        annotation_clip=False,
    )


def over_time(analysis: Json, found: list[Verdict]) -> Figure:
    """Return the pair's log ratio in every block, in the order in which blocks were visited."""
    title = "Log ratio per block, over time"
    seen, clock = _series(analysis)
    if not seen:
        return canvas.undrawn("blocks", title, "not recorded: the analysis holds no block series")
    middle = centre(seen, found)

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        _centre(axis, middle)
        for order, mark, face in (("ABBA", "o", TONES["held"]), ("BAAB", "s", PAPER)):
            chosen = [point for point in seen if point.order == order]
            _dots(axis, chosen, order, mark, face)
        others = [point for point in seen if point.order not in ("ABBA", "BAAB")]
        _dots(axis, others, "order not recorded", "^", BAND)
        _launches(axis, seen)
        _time_axes(axis, clock)

    text = "interval not estimable" if middle.bounds is None else "the band its interval"
    caption = (
        f"The line is the mean, {text}. Discs are ABBA blocks, squares BAAB blocks; "
        "thin verticals mark new process launches."
    )
    return canvas.drawn("blocks", title, caption, (WIDTH, 3.5), draw)


def _series(analysis: Json) -> tuple[list[Point], str]:
    cpu = points(analysis, "cpu")
    return (cpu, "CPU") if cpu else (points(analysis, "wall"), "wall")


def _dots(axis: Any, seen: list[Point], label: str, mark: str, face: str) -> None:
    if seen:
        spots = ([point.block for point in seen], [point.log_ratio for point in seen])
        axis.plot(*spots, mark, ms=5, mew=1.1, mec=TONES["held"], mfc=face, label=label, zorder=3)


def _centre(axis: Any, middle: Quantity) -> None:
    if middle.bounds is not None:
        axis.axhspan(*middle.bounds, color=BAND, lw=0)
    if middle.estimate is not None:
        axis.axhline(middle.estimate, color=TONES["held"], lw=1.2)


def _launches(axis: Any, seen: list[Point]) -> None:
    last: object = None
    for point in sorted(seen, key=lambda point: point.block):
        if point.launch != last and point.launch is not None:
            if last is not None:
                axis.axvline(point.block - 0.5, color=RULE, lw=0.9, zorder=0)
            axis.annotate(
                f"launch {point.launch}",
                (point.block - 0.35, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=8,
                color=MUTED,
            )
            last = point.launch


def _time_axes(axis: Any, clock: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_xlabel("block, in order of visit")
    axis.set_ylabel(f"log ratio of {clock} time")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    other = axis.secondary_yaxis("right")
    other.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{number(math.exp(y))}×"))
    other.spines["right"].set_visible(False)
    other.tick_params(length=0)
    axis.margins(x=0.02, y=0.15)
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.16), ncols=3, fontsize=8)


def decomposition(analysis: Json) -> Figure:
    """Return where the time of every arm goes: milliseconds per token by phase."""
    title = "Where the time goes: milliseconds per token by phase"
    phases = ("prefill", "decode", "total")
    panels = _known({phase: _phase(analysis, phase) for phase in phases})
    if not panels:
        return canvas.undrawn("phases", title, "not recorded: no arm has a time per token")
    caption = (
        "Dots are estimates; whiskers are intervals, hidden where narrower than the dot. "
        "The dashed line is the pristine arm. Axes start at zero."
    )
    return _panels("phases", title, caption, panels, arm_roles(analysis))


def _phase(analysis: Json, phase: str) -> dict[str, Quantity]:
    found = {}
    for name, arm in arms(analysis).items():
        value = quantity(part(part(arm, "phases"), phase).get("ms_per_token"))
        inner = quantity(part(arm, "phases").get(phase))
        value = inner if value.estimate is None else value
        if phase == "decode" and value.estimate is None:
            value = per_token(arm, "cpu")
        found[name] = value
    return found


def cost_model(analysis: Json) -> Figure:
    """Return what a pass costs by its tokens per row, split into its three parts."""
    title = "Fitted cost model: what a pass costs"
    found = cost(analysis)
    if found is None:
        return canvas.undrawn("costs", title, "not recorded: no cost model was fitted")

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for tokens in range(1, found.tokens + 1):
            _cost_bar(axis, tokens, found)
        axis.set_yticks(range(1, found.tokens + 1))
        axis.set_ylim(found.tokens + 0.6, 0.4)
        axis.set_ylabel("tokens per row")
        axis.set_xlabel(f"ms per pass, {found.batch} rows, {found.loops} loops")
        axis.set_xlim(0, found.total_ms(found.tokens) * 1.1)
        axis.tick_params(axis="y", length=0, labelcolor=INK)
        axis.legend(
            frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, fontsize=8
        )

    caption = "One model, fitted over every timed visit of the arms at full depth."
    return canvas.drawn("costs", title, caption, (WIDTH, 1.2 + 0.34 * found.tokens), draw)


def _cost_bar(axis: Any, tokens: int, found: Cost) -> None:
    left = 0.0
    tones = (ROLES["pristine"], TONES["void"], TONES["held"])
    for (_, title), width, tone in zip(PARTS, found.parts_ms(tokens), tones, strict=True):
        label = title if tokens == 1 else None
        axis.barh(tokens, width, 0.62, left, color=tone, edgecolor=PAPER, lw=0.8, label=label)
        left += width
    text = number(left)
    axis.annotate(text, (left, tokens), (5, 0), textcoords="offset points", va="center", fontsize=8)


def arm_roles(analysis: Json) -> dict[str, str]:
    """Return every arm's role."""
    return {name: str(arm.get("role") or "patched") for name, arm in arms(analysis).items()}


def _known(panels: Panels) -> Panels:
    found = {
        name: {arm: value for arm, value in panel.items() if value.estimate is not None}
        for name, panel in panels.items()
    }
    return {name: panel for name, panel in found.items() if panel}


def _panels(name: str, title: str, caption: str, panels: Panels, roles: dict[str, str]) -> Figure:
    known = [arm for arm in roles if any(arm in found for found in panels.values())]
    extra = [arm for found in panels.values() for arm in found if arm not in roles]
    names = [*known, *dict.fromkeys(extra)]

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (heading, found) in zip(axes, panels.items(), strict=True):
            _panel(axis, heading, found, names, roles)

    return canvas.drawn(name, title, caption, (WIDTH, 0.95 + 0.42 * len(names)), draw)


def _panel(
    axis: Any, heading: str, found: dict[str, Quantity], names: list[str], roles: dict[str, str]
) -> None:
    most = max(value for part in found.values() for value in part.known)
    least = min(0.0, *(value for part in found.values() for value in part.known))
    for arm, value in found.items():
        y = names.index(arm)
        _whisker(axis, value, y, ROLES.get(roles.get(arm, ""), ROLES["patched"]))
        end = max(value.known)
        text = number(value.estimate or 0.0)
        back = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2}
        style = {"va": "center", "fontsize": 8, "bbox": back}
        axis.annotate(text, (end, y), (7, 0), textcoords="offset points", **style)
        if roles.get(arm) == "pristine" and value.estimate is not None:
            axis.axvline(value.estimate, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
    axis.set_title(f"{heading}, ms", color=INK)
    axis.set_xlim(least * 1.1, most * 1.28 or 1.0)
    axis.set_yticks(range(len(names)), [canvas.label(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axis.locator_params(axis="x", nbins=4)


def control(analysis: Json) -> Figure:
    """Return the A/A interval against its limits."""
    title = "A/A control: pristine against itself"
    aa = quantity(analysis.get("aa"))
    delta = finite(part(analysis, "aa").get("delta"))
    if not aa.known or delta is None:
        reason = "not estimable: no interval" if aa.recorded else "not recorded: no A/A control"
        return canvas.undrawn("control", title, reason)
    word = "held" if part(analysis, "aa").get("ok") is True else "failed"

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        axis.axvspan(-delta, delta, color=BAND, lw=0)
        axis.axvline(0, color=MUTED, lw=0.8, ls=(0, (3, 3)))
        _whisker(axis, aa, 0.0, TONES[word], MARKS[word])
        axis.set_xlim(*_room([-delta, delta, *aa.known], is_log=False))
        axis.set_xticks([-delta, 0, delta], [f"{fixed(-delta, 2)}", "0", f"{fixed(delta, 2)}"])
        axis.set_ylim(-1, 1)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set_xlabel("log ratio of two separately started pristine workers")
        _beside(axis, show(aa, beside=[-delta, delta]).line.replace(" [", "\n["))

    caption = "The band is ±δ, frozen in the plan; an interval that leaves it voids the run."
    return canvas.drawn("control", title, caption, (WIDTH, 1.3), draw)
