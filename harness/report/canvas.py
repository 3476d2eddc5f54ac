"""How every figure looks, and how it becomes bytes that are the same each time."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.report.escape import one_line

INK, MUTED, RULE, BAND, PAPER = "#1d2126", "#5f6873", "#d9dce0", "#dceaf4", "#ffffff"
TONES = {"held": "#0072b2", "failed": "#c24e00", "inconclusive": "#8a6400", "void": "#6b7078"}
MARKS = {"held": "o", "failed": "D", "inconclusive": "o", "void": "x"}
ROLES = {"pristine": "#3d4650", "patched": TONES["held"], "control": TONES["failed"]}
_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    BAND: "band",
    PAPER: "paper",
    ROLES["pristine"]: "strong",
    **{colour: word for word, colour in TONES.items()},
}
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.hashsalt": "harness-report",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "path.simplify": False,
    "text.parse_math": False,
}


@dataclass(frozen=True)
class Figure:
    """A drawn figure: a name for its files, a sentence for its caption, and its bytes."""

    name: str
    title: str
    caption: str
    svg: bytes = b""
    pdf: bytes = b""
    missing: str = ""
    """Why nothing is drawn, where nothing is."""

    @property
    def inline(self) -> Markup:
        """The SVG for an HTML page: its colours follow the page, its ids are its own."""
        return inline_svg(self.name, self.title, self.svg.decode())


def drawn(
    name: str, title: str, caption: str, size: tuple[float, float], draw: Callable[[Any], None]
) -> Figure:
    """Return a figure that `draw` fills, as SVG and PDF without dates."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    style: dict[Any, Any] = {**mpl.rcParamsDefault, **_STYLE, "backend": "agg"}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasAgg(canvas)
        draw(canvas)
        svg, pdf = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return Figure(name, title, caption, svg.getvalue(), pdf.getvalue())


def label(text: str, longest: int = 28) -> str:
    """Return a name fit for a figure: one line, and cut where it would crowd the drawing."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def undrawn(name: str, title: str, reason: str) -> Figure:
    """Return a figure that says why it is not there."""
    return Figure(name, title, "", missing=reason)


def creator(svg: bytes) -> str:
    """Return which program drew an SVG, as its metadata says."""
    found = re.search(rb"<dc:creator>.*?<dc:title>(.*?)</dc:title>", svg, re.DOTALL)
    return found.group(1).decode(errors="replace") if found else ""


def inline_svg(name: str, title: str, svg: str) -> Markup:
    """Return matplotlib's SVG fit for a page that may be dark and may hold others like it."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    opening = Markup('<svg role="img" aria-label="{}" ').format(title)
    return Markup(body.replace("<svg ", opening, 1))  # noqa: S704 - matplotlib escapes its text
