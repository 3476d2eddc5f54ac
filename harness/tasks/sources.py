"""Item sources by name, with the options that a plan may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.tasks import arithmetic, gsm8k, notes
from harness.tasks.items import Item, ItemError

SOURCES = (arithmetic.FAMILY, gsm8k.FAMILY, notes.FAMILY)


def draw(
    source: str, bucket: str, seed: str, count: int, options: Mapping[str, Any]
) -> tuple[Item, ...]:
    """`count` different items of one bucket, the same ones for the same arguments.

    An option that is null counts as absent, so that a variant can drop its base plan's options.
    Raises ItemError for an unknown source, bucket or option, or a difficulty with too few items.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if source == arithmetic.FAMILY:
        return arithmetic.draw(bucket, seed, count, _difficulty(options))
    if source == gsm8k.FAMILY:
        unknown = sorted(set(options) - {"shots"})
        if unknown:
            raise ItemError(f"options: {unknown[0]} is unknown; known is shots")
        return gsm8k.draw(bucket, seed, count, **options)
    if source == notes.FAMILY and not options:
        return notes.draw(bucket, seed, count)
    if source == notes.FAMILY:
        raise ItemError(f"options: {', '.join(sorted(options))}: notes take none")
    raise ItemError(f"source: found '{source}', expected one of {', '.join(SOURCES)}")


def _difficulty(options: Mapping[str, Any]) -> arithmetic.Difficulty:
    known = {"steps", "max_number", "distractors"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ItemError(f"options: {unknown[0]} is unknown; known are {', '.join(sorted(known))}")
    values = dict(options)
    steps = values.pop("steps", None)
    if steps is not None:
        if not isinstance(steps, list | tuple) or len(steps) != 2:
            raise ItemError(f"options.steps: found {steps}, expected [least, most]")
        values["steps"] = (steps[0], steps[1])
    return arithmetic.Difficulty(**values)
