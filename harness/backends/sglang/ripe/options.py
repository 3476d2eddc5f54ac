"""HARNESS_RIPE: the patch's settings, read strictly."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

VARIABLE = "HARNESS_RIPE"
FULL_PROMPT = "full_prompt"
EXACT = "exact"


class RipeError(RuntimeError):
    """The patch cannot do what is asked; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Options:
    """The window (earlier positions), the loops, the requests at once, and the prefill."""

    window: int
    loops: int
    requests: int
    prefill: str

    @property
    def longest_pass(self) -> int | None:
        """Most tokens of one request in a pass, or None where a prompt goes in one pass."""
        return self.window + 1 if self.prefill == EXACT else None


def read_options() -> Options:
    """The settings in the environment. Raises RipeError naming the variable and the key."""
    text = os.environ.get(VARIABLE)
    if text is None:
        raise RipeError(f"{VARIABLE}: not set, expected a JSON object")
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise RipeError(f"{VARIABLE}: not JSON: {error}") from error
    return parse(raw)


def parse(raw: Any) -> Options:
    """Settings from an object with exactly the keys of `Options`. Raises RipeError."""
    keys = set(Options.__dataclass_fields__)
    if not isinstance(raw, dict) or set(raw) != keys:
        found = sorted(raw) if isinstance(raw, dict) else type(raw).__name__
        raise RipeError(f"{VARIABLE}: found {found}, expected the keys {sorted(keys)}")
    for key, low in (("window", 0), ("loops", 1), ("requests", 1)):
        value = raw[key]
        if type(value) is not int or value < low:
            raise RipeError(f"{VARIABLE}: {key}: found {value!r}, expected an integer from {low}")
    if raw["prefill"] not in (FULL_PROMPT, EXACT):
        raise RipeError(
            f"{VARIABLE}: prefill: found {raw['prefill']!r}, expected '{FULL_PROMPT}' or '{EXACT}'"
        )
    return Options(**raw)
