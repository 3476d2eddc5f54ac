"""What a generation trial yields: times per visit; answers, tokens and drafts per trial."""

from __future__ import annotations

from collections.abc import Callable

from harness.store.canonical import Json


def _seconds(field: str) -> Callable[[Json], float]:
    """A time below the clock's resolution counts as a nanosecond, so that it has a logarithm."""
    return lambda visit: max(1, int(visit["timing"][field])) / 1e9


def _per_token(field: str) -> Callable[[Json], float]:
    seconds = _seconds(field)
    return lambda visit: seconds(visit) / max(1, visit["tokens"])


PHASES = ("prefill", "decode", "total")

VISIT: dict[str, Callable[[Json], float]] = {
    **{f"{phase}_seconds": _seconds(f"{phase}_ns") for phase in PHASES},
    **{f"{phase}_cpu_seconds": _seconds(f"{phase}_cpu_ns") for phase in PHASES},
    "decode_seconds_per_token": _per_token("decode_ns"),
    "decode_cpu_seconds_per_token": _per_token("decode_cpu_ns"),
}
"""Quantities of a visit, in seconds; a time-out counts with the time it took."""


def right(trial: Json) -> int:
    """1 if the answer was right, else 0: wrong, missing, timed out and failed alike."""
    return int(trial["score"]["status"] == "right")


TRIAL: dict[str, Callable[[Json], float]] = {
    "correct": right,
    "tokens": lambda trial: len(trial["token_ids"]),
    "accepted": lambda trial: trial["counters"].get("accepted", 0),
    "drafted": lambda trial: trial["counters"].get("drafted", 0),
    "passes": lambda trial: trial["counters"].get("passes", 0),
}
"""Quantities of a trial."""
