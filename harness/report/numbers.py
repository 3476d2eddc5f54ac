"""Every number of a run under a name of its own, for JSON and for LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.report import arms as arms_module
from harness.report.bars import bar_numbers
from harness.report.costs import PARTS
from harness.report.escape import command_name, tex
from harness.report.format import count, finite, scaled, size
from harness.report.quantity import Quantity, part, quantity, show
from harness.report.verdicts import Verdict, chance_text, percent, verdicts
from harness.store.canonical import Json, canonical
from harness.store.errors import ChangedError


@dataclass(frozen=True)
class Number:
    """A value, its unit, and the text that a page prints for it."""

    name: tuple[str, ...]
    value: float | str | None
    unit: str
    text: str

    @property
    def key(self) -> str:
        """Its name in `numbers.json`."""
        return ".".join(self.name)


def numbers(analysis: Json, plan_json: Json) -> list[Number]:
    """Return every number of the run; missing ones say so in their text."""
    found = [number for verdict in verdicts(analysis, plan_json) for number in _verdict(verdict)]
    for name, arm in arms_module.arms(analysis).items():
        found += _arm(name, arm)
    fitted = part(analysis, "cost_model")
    for key in (*(key for key, _ in PARTS), "r2", "verify_ratio"):
        unit = "µs" if key.endswith("_us") else ""
        found += _interval(("cost", key), quantity(fitted.get(key)), unit)
    found += _interval(("aa",), quantity(analysis.get("aa")), "log_ratio")
    for named, value, unit in bar_numbers(analysis):
        found += _interval(named, value, unit)
    found += [
        Number(("blocks", key), finite(value), "blocks", count(value))
        for key, value in sorted(part(analysis, "blocks").items())
    ]
    return found


def _verdict(verdict: Verdict) -> Iterator[Number]:
    yield Number((verdict.id, "word"), verdict.word, "", verdict.word)
    yield from _interval((verdict.id,), verdict.found, verdict.unit, verdict.region)
    clusters = verdict.data.get("clusters")
    yield Number((verdict.id, "clusters"), finite(clusters), "clusters", count(clusters))
    level = finite(verdict.data.get("confidence_level"))
    yield Number((verdict.id, "level"), level, "share", percent(level))
    yield Number(
        (verdict.id, "confidence"), verdict.confidence, "share", percent(verdict.confidence)
    )
    if verdict.chance is not None:
        text = chance_text(verdict.chance)
        yield Number((verdict.id, "chance"), verdict.chance, "share", text)


def _arm(name: str, arm: Json) -> Iterator[Number]:
    for key, (found, unit) in arms_module.measures(arm).items():
        yield from _interval((name, key), found, unit)
    for key, found in (
        ("agreement_within", arms_module.within(arm)),
        ("differ_at_most", arms_module.differing(arm)),
    ):
        if found.recorded:
            yield from _interval((name, key), found, "share")
    cache = quantity(arm.get("cache_bytes_mean")).estimate
    yield Number((name, "cache"), cache, "bytes", size(cache))


def _interval(
    name: tuple[str, ...],
    found: Quantity,
    unit: str,
    beside: tuple[float | None, float | None] = (None, None),
) -> Iterator[Number]:
    text = show(found, unit, beside)
    estimate = text.estimate
    yield Number((*name, "estimate"), found.estimate, unit, estimate)
    ends = text.interval.strip("[]").split(", ") if text.interval else ["", ""]
    suffix = scaled(unit)[1]
    for key, value, end in zip(("low", "high"), (found.low, found.high), ends, strict=True):
        if value is not None:
            yield Number((*name, key), value, unit, f"{end}{suffix}")


def numbers_json(analysis: Json, plan_json: Json) -> bytes:
    """Return the numbers as canonical JSON."""
    table = {
        item.key: {"value": item.value, "unit": item.unit, "text": item.text}
        for item in numbers(analysis, plan_json)
    }
    head = {"format": 1, "plan": analysis.get("plan"), "run_id": analysis.get("run_id")}
    return canonical({**head, "numbers": table}) + b"\n"


def numbers_tex(analysis: Json, plan_json: Json) -> bytes:
    """Return one `\\newcommand` per number.

    Raises:
        ChangedError: two numbers would get the same command name.
    """
    plan = str(analysis.get("plan") or "")
    lines = {}
    for item in numbers(analysis, plan_json):
        name = command_name(plan, *item.name)
        if name in lines:
            raise ChangedError(f"numbers.tex: \\{name} stands for two numbers; rename {item.key}")
        lines[name] = rf"\newcommand{{\{name}}}{{{tex(item.text)}}}"
    return "\n".join([f"% numbers of {tex(plan)}", *lines.values(), ""]).encode()
