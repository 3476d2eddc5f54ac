"""Draws the figures of looped.md from policies, formulas and the shipped models' cards.

    python docs/make_looped_figures.py

Writes docs/figures/looped_*.svg. The same input gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.looped.costs import Round, pass_cost
from harness.looped.memory import cache_bytes
from harness.looped.policies import Policy, deepest, full, ripe
from harness.looped.published import PUBLISHED
from harness.looped.weights import SHIPPED
from harness.report.canvas import INK, MUTED, RULE, TONES, drawn

FIGURES = Path(__file__).parent / "figures"
LOOPS = 6
OWN, DEEP, ABSENT = TONES["held"], "#9ccbe8", TONES["failed"]


def grid(axis: Any, columns: int, title: str) -> None:
    axis.set(xlim=(-0.5, columns - 0.5), ylim=(0.5, LOOPS + 0.5), title=title)
    axis.set(xlabel="position", xticks=range(columns), yticks=range(1, LOOPS + 1))
    axis.set_aspect("equal")
    for x in range(columns):
        for y in range(1, LOOPS + 1):
            box(axis, x, y, "none", RULE)


def box(axis: Any, x: int, y: int, face: str, edge: str = "none") -> None:
    from matplotlib.patches import Rectangle

    axis.add_patch(Rectangle((x - 0.42, y - 0.42), 0.84, 0.84, facecolor=face, edgecolor=edge))


def reads(axis: Any, policy: Policy, query: int, loop: int) -> None:
    """The plane that the query's loop reads of every earlier position."""
    for key in range(query):
        plane = policy.plane(query=query, loop=loop, key=key, loops=LOOPS)
        box(axis, key, plane, OWN if plane == loop else DEEP)
    box(axis, query, loop, INK)


def planes(canvas: Any) -> None:
    axes = canvas.subplots(1, 3, sharey=True)
    for axis, (name, policy) in zip(
        axes,
        (("full cache", full()), ("deepest plane, W = 0", deepest()), ("RIPE, W = 3", ripe(3))),
        strict=True,
    ):
        grid(axis, 9, name)
        reads(axis, policy, 8, 3)
    axes[0].set_ylabel("plane (loop that wrote it)")


def window(canvas: Any) -> None:
    """A block of b tokens at loop 3: what its last query needs of the others."""
    axes = canvas.subplots(1, 2, sharey=True)
    for axis, block in zip(axes, (4, 5), strict=True):
        first, last, wide = 4, 4 + block - 1, 3
        fits = "fits" if block <= wide + 1 else "does not fit"
        grid(axis, 9, f"W = {wide}, a pass of {block} tokens: {fits}")
        for key in range(last):
            plane = ripe(wide).plane(query=last, loop=3, key=key, loops=LOOPS)
            exists = key < first or plane <= 3
            box(axis, key, plane, (OWN if plane == 3 else DEEP) if exists else ABSENT)
        box(axis, last, 3, INK)
        axis.axvline(first - 0.5, color=MUTED, linestyle="--")
    axes[0].set_ylabel("plane (loop that wrote it)")


def memory(canvas: Any) -> None:
    axis = canvas.subplots()
    windows = [2**i for i in range(11)]
    for name, tone in (("huginn_0125", "held"), ("raven_llama_1b", "failed")):
        config = PUBLISHED[name]
        whole = cache_bytes(config, full(), 1024, 32, 2)
        shares = [100 * cache_bytes(config, ripe(w), 1024, 32, 2) / whole for w in windows]
        axis.plot(windows, shares, "o-", color=TONES[tone], label=name)
    axis.set_xscale("log", base=2)
    axis.set_xticks(windows, [str(w) for w in windows])
    axis.set(xlabel="window W", ylabel="% of the full cache", title="1024 tokens, 32 loops")
    axis.set(ylim=(0, 102))
    axis.legend(frameon=False)


def reuse(canvas: Any) -> None:
    axis = canvas.subplots()
    cost = pass_cost(PUBLISHED["huginn_0125"])
    widths = [1 + i / 10 for i in range(41)]
    rounds = [Round(32, 4, 4, eta) for eta in widths]
    for label, rate, again, tone in (
        ("full-cache drafts (0.81)", 0.81, False, "void"),
        ("full-cache drafts, states reused", 0.81, True, "held"),
        ("deepest-plane drafts (0.93)", 0.93, False, "failed"),
    ):
        gains = [r.speed_up(cost, [rate] * 4, reuse=again) for r in rounds]
        axis.plot(widths, gains, color=TONES[tone], label=label)
    axis.axhline(1, color=MUTED, linestyle="--")
    axis.set(xlabel="cost of a verification, in passes of one token")
    axis.set(ylabel="modelled speed-up", title="4 drafts of 4 loops, Huginn's shape, 32 loops")
    axis.legend(frameon=False)


def unripe(canvas: Any) -> None:
    """Plane distances of both shipped models, and what windows change in the unripe one."""
    left, right = canvas.subplots(1, 2)
    cards = {
        name: json.loads((SHIPPED / name / "card.json").read_text(encoding="utf-8"))["measured"]
        for name in ("tiny_ripe", "tiny_unripe")
    }
    for (name, card), tone in zip(cards.items(), ("held", "failed"), strict=True):
        distances = card["ripening"]["median_distance"]
        left.semilogy(range(1, len(distances) + 1), distances, color=TONES[tone], label=name)
    planes = cards["tiny_unripe"]["planes"]
    left.axhline(
        planes["bfloat16_distance"], color=MUTED, linestyle="--", label="bfloat16, tiny_unripe"
    )
    left.set(xlabel="loop r", ylabel="relative", title="Distance of plane r to the settled plane")
    rounding, *windows = planes["divergence"]
    names = [line["reads"].removeprefix("W = ") for line in windows]
    for key, label, tone in (("mean", "mean", "held"), ("high", "99 % of positions", "failed")):
        right.semilogy(names, [w[key] for w in windows], "o-", color=TONES[tone], label=label)
        right.axhline(rounding[key], color=TONES[tone], linestyle="--")
    right.set(xlabel="window W", ylabel="nats", title="tiny_unripe: KL from the full cache")
    for axis in (left, right):
        axis.legend(frameon=False)


DRAWINGS: dict[str, tuple[Callable[[Any], None], tuple[float, float]]] = {
    "planes": (planes, (8.4, 2.4)),
    "window": (window, (7.0, 2.8)),
    "memory": (memory, (5.0, 2.8)),
    "reuse": (reuse, (5.6, 3.0)),
    "unripe": (unripe, (8.0, 3.2)),
}


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    for name, (draw, size) in DRAWINGS.items():
        figure = drawn(f"looped_{name}", name, "", size, draw)
        (FIGURES / f"looped_{name}.svg").write_bytes(figure.svg)
        print(f"docs/figures/looped_{name}.svg")


if __name__ == "__main__":
    main()
