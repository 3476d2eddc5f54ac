"""`harness ripeness MODEL`: does the deepest plane suffice here, and which window is enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.output import note, print_json
from harness.cli.parsing import parser
from harness.store.errors import Exit, UsageError

if TYPE_CHECKING:
    from harness.looped.ripeness import Ripeness
    from harness.report.canvas import Figure

_SEED = "ripeness"


def main(argv: Sequence[str]) -> int:
    """Measure a model, print what follows, and draw it."""
    args = _parser().parse_args(argv)
    import torch

    from harness.looped.errors import LoopedError
    from harness.looped.ripeness import measure_ripeness
    from harness.looped.weights import find, load

    torch.set_num_threads(args.threads)
    try:
        folder = find(args.model)
        model = load(folder, device=args.device)
        ids = torch.tensor(_texts(args, folder), device=args.device)
        model.check_length(ids.shape[1])
        found = measure_ripeness(model, ids, loops=args.loops, mode=args.mode)
    except LoopedError as error:
        raise UsageError(str(error)) from error
    figure = _draw(folder.name, found)
    path = Path(args.figure or f"ripeness-{folder.name}.svg")
    _write(path, figure)
    if args.json:
        print_json(_facts(found, args.draft_tokens, str(path)))
    else:
        print("\n".join(_lines(folder.name, found, args.draft_tokens)))
        note(f"figure: {path}")
    return Exit.DONE


def _parser() -> Any:
    made = parser("ripeness", "does the deepest plane suffice, and which window", json=True)
    made.add_argument("model", help="a shipped model's name, or a folder with a checkpoint")
    made.add_argument("--loops", type=int, help="loops R; by default the config's number")
    made.add_argument("--ids", metavar="FILE", help="JSON list of texts as token ids")
    made.add_argument("--texts", type=int, default=8, help="texts to read (default 8)")
    made.add_argument("--length", type=int, default=192, help="tokens of each (default 192)")
    made.add_argument(
        "--mode",
        choices=("sequential", "one_pass"),
        default="sequential",
        help="sequential: what decoding would do; one_pass: its direct effect, much faster",
    )
    made.add_argument("--draft-tokens", type=int, default=4, help="drafts a round (default 4)")
    made.add_argument("--figure", metavar="FILE", help="where the SVG or PDF goes")
    made.add_argument("--device", default="cpu")
    made.add_argument("--threads", type=int, default=1)
    return made


def _texts(args: Any, folder: Path) -> list[list[int]]:
    """Texts of one length as ids: from a file, or explore items in the model's own tokenizer."""
    if args.ids is not None:
        return _cut(args.ids, _read_ids(Path(args.ids)), args.texts, args.length)
    from harness.tasks import arithmetic, notes
    from harness.tasks.tokenizer import END, TokenizerError, load_tokenizer

    try:
        tokenizer = load_tokenizer(folder / "tokenizer.json")
    except TokenizerError as error:
        raise UsageError(f"{error}; give texts of token ids with --ids FILE") from error
    items = []
    for item in zip(
        arithmetic.draw("explore", _SEED, 8 * args.texts),
        notes.draw("explore", _SEED, 8 * args.texts),
        strict=True,
    ):
        items += [[*tokenizer.encode(part.prompt + part.answer), END] for part in item]
    whole = [token for item in items for token in item]
    pieces = [whole[i : i + args.length] for i in range(0, len(whole), args.length)]
    return _cut(str(folder), pieces, args.texts, args.length)


def _read_ids(path: Path) -> list[list[int]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a readable list of token ids: {error}") from error
    rows = content if isinstance(content, list) else []
    if not rows or not all(isinstance(r, list) and all(type(i) is int for i in r) for r in rows):
        raise UsageError(f"{path}: expected a JSON list of lists of token ids")
    return rows


def _cut(name: str, texts: list[list[int]], count: int, length: int) -> list[list[int]]:
    long = [text[:length] for text in texts if len(text) >= length][:count]
    if len(long) < count or count < 1 or length < 2:
        raise UsageError(
            f"{name}: found {len(long)} texts of {length} tokens, expected {count}; "
            "lower --texts or --length"
        )
    return long


def _facts(found: Ripeness, drafts: int, figure: str) -> dict[str, Any]:
    return {
        **asdict(found),
        "by_window": {str(window): asdict(d) for window, d in found.by_window.items()},
        "planes_ripe": found.planes_ripe,
        "deepest_suffices": found.deepest_suffices,
        "recommended_window": _recommended(found, drafts),
        "draft_tokens": drafts,
        "figure": figure,
    }


def _recommended(found: Ripeness, drafts: int) -> int | None:
    """Long enough for the text, and for a verification in one pass."""
    return None if found.window is None else max(found.window, drafts)


def _lines(name: str, found: Ripeness, drafts: int) -> list[str]:
    late = "at or below" if found.planes_ripe else "above"
    rate = f"{found.fit.rho:.3f} per loop" if found.fit else "not to be fitted"
    lines = [
        f"{name}, {found.loops} loops, {found.positions} positions",
        f"planes ripen at {rate}; median distance to the settled plane in the last quarter of the "
        f"loops: {found.late:.2g}, {late} the bfloat16 floor {found.floor:.2g}",
        "",
        f"{'window':>10}  {'mean KL':>9}  {'99 %':>9}  {'largest':>9}  over 0.1  top 1 % share",
    ]
    rows = [("bfloat16", found.rounding), *((str(w), d) for w, d in found.by_window.items())]
    for row, d in rows:
        values = f"{d.mean:9.2e}  {d.high:9.2e}  {d.largest:9.2e}  {d.large:8d}"
        lines.append(f"{row:>10}  {values}  {d.top_share:.2f}")
    return [*lines, "", _verdict(found, drafts)]


def _verdict(found: Ripeness, drafts: int) -> str:
    if found.window is None:
        return (
            f"the deepest plane does not suffice, nor does any window to {max(found.by_window)}: "
            "each changes more than bfloat16 rounding does. Use the full cache at this depth"
        )
    window = _recommended(found, drafts)
    reason = f"{drafts} drafts a round are verified in one pass from W = {drafts} on"
    if found.deepest_suffices:
        return (
            "the deepest plane suffices here: it changes less than bfloat16 rounding does. "
            f"Recommended with drafts: W = {window} ({reason})"
        )
    return (
        f"the deepest plane does not suffice; a window of {found.window} does (less than bfloat16 "
        f"rounding). Recommended: W = {window} ({reason})"
    )


def _draw(name: str, found: Ripeness) -> Figure:
    from harness.report.canvas import MUTED, TONES, drawn

    def draw(canvas: Any) -> None:
        left, right = canvas.subplots(1, 2)
        loops = range(1, found.loops + 1)
        left.semilogy(loops, found.medians, color=TONES["held"], label="median position")
        left.semilogy(loops, found.highs, color=TONES["failed"], label="99 % of positions")
        left.axhline(found.floor, color=MUTED, linestyle="--", label="bfloat16 floor")
        left.set(xlabel="loop r", title="Distance of plane r to the settled plane")
        windows = [str(window) for window in found.by_window]
        parts = found.by_window.values()
        right.semilogy(windows, [d.mean for d in parts], "o-", color=TONES["held"], label="mean")
        right.semilogy(
            windows, [d.high for d in parts], "D-", color=TONES["failed"], label="99 % of positions"
        )
        right.axhline(found.rounding.mean, color=TONES["held"], linestyle="--", label="bfloat16")
        right.axhline(found.rounding.high, color=TONES["failed"], linestyle="--")
        right.set(xlabel="window W", title="KL from the full cache, nats")
        for axis in (left, right):
            axis.legend(frameon=False)

    caption = f"{name} at {found.loops} loops, {found.positions} positions"
    return drawn("ripeness", f"Ripeness of {name}", caption, (8.0, 3.2), draw)


def _write(path: Path, figure: Figure) -> None:
    from harness.store import files

    if path.suffix not in (".svg", ".pdf"):
        raise UsageError(f"{path}: expected a figure name that ends in .svg or .pdf")
    files.replace(path, figure.svg if path.suffix == ".svg" else figure.pdf)


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
