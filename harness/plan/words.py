"""The words after a subcommand: plain KEY=VALUE only, and exactly one plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.store.errors import UsageError

_WORD = re.compile(r"^([A-Za-z_][\w.]*)=(.*)$", re.DOTALL)
_PLAN = re.compile(r"^[a-z][a-z0-9_]{0,63}$")


@dataclass(frozen=True)
class Words:
    """The plan's name and the overrides, in the order given."""

    plan: str
    overrides: dict[str, str]


def parse_words(words: list[str]) -> Words:
    """Read `conf=NAME KEY=VALUE…` (or `NAME KEY=VALUE…`).

    Raises:
        UsageError: anything else (`+`, `++`, `~`, lists, repeats, paths), naming the word.
    """
    named: dict[str, str] = {}
    for position, word in enumerate(words):
        if position == 0 and _PLAN.fullmatch(word):
            named["conf"] = word
            continue
        match = _WORD.fullmatch(word)
        if match is None:
            raise UsageError(
                f"{word}: only plain KEY=VALUE is accepted (no +, ++, ~ or flags among them)"
            )
        key, value = match.groups()
        if key in named:
            raise UsageError(f"{key} is given twice: {named[key]} and {value}; give it once")
        if key == "hydra" or key.startswith("hydra."):
            raise UsageError(f"{word}: hydra.* is not part of a plan")
        named[key] = value
    return _words(named)


def _words(named: dict[str, str]) -> Words:
    if "conf" not in named:
        raise UsageError("no plan named; say conf=NAME (see `harness list`)")
    plan = named.pop("conf")
    if not _PLAN.fullmatch(plan):
        raise UsageError(
            f"conf={plan}: name exactly one plan, the NAME of conf/NAME.yaml, without path or .yaml"
        )
    return Words(plan, named)
