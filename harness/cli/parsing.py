"""Arguments that commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence


def parser(command: str, description: str, *, json: bool = False) -> argparse.ArgumentParser:
    """Return a parser for one subcommand; `json` adds `--json`."""
    made = argparse.ArgumentParser(prog=f"harness {command}", description=description)
    if json:
        made.add_argument("--json", action="store_true", help="print facts for programs")
    return made


def utf8(value: str) -> str:
    """Return an argument that is kept as text; it is UTF-8 whatever the locale says."""
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError("is not text in UTF-8") from None


def words_argument(made: argparse.ArgumentParser) -> None:
    """Add `conf=PLAN KEY=VALUE …`."""
    made.add_argument(
        "words",
        nargs="*",
        type=utf8,
        metavar="KEY=VALUE",
        help="conf=PLAN, then overrides where allowed",
    )


def parse_mixed(made: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse options and words in any order."""
    return made.parse_intermixed_args(list(argv))
