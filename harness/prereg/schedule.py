"""A journal against the frozen order: every visit and trial where, when and as often as ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.plan.order import Block, OrderTable, Visit
from harness.prereg.findings import Finding, changed, incomplete
from harness.store.canonical import Json

KINDS = frozenset({"run", "selftest", "launch", "trial", "visit", "block", "aa"})
SCORED = "scored"

VisitKey = tuple[int, str, int]
"""(block, arm, visit)."""


@dataclass
class _Seen:
    """What the scored records of one journal amount to."""

    visits: dict[VisitKey, Json] = field(default_factory=dict)
    trials: dict[VisitKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    events: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    run_events: set[str] = field(default_factory=set)


def check_schedule(
    path: str, records: Iterable[Json], order: OrderTable, ids: Sequence[str] | None
) -> list[Finding]:
    """Return everything in a journal that differs from the order table.

    `ids` are the stage's items in drawn order (None where no lock fixes them).
    """
    seen = _Seen()
    try:
        found = list(_index(path, records, order, seen))
        found += _order_within(path, order, seen)
        found += _blocks(path, order, ids, seen)
    except (KeyError, TypeError, AttributeError) as error:
        return [changed(path, f"a record lacks a field or has it in another form: {error}")]
    return found


def _index(path: str, records: Iterable[Json], order: OrderTable, seen: _Seen) -> Iterator[Finding]:
    planned = {(v.block, v.arm, v.visit): v for block in order.blocks for v in block.visits}
    for place, record in enumerate(records):
        where = f"record {place + 1}"
        kind = record.get("kind")
        if record.get("seq") != place:
            yield changed(path, f"{where}: seq: found {record.get('seq')!r}, expected {place}")
        if kind not in KINDS:
            yield changed(path, f"{where}: kind {kind!r} is not known")
        elif kind == "run":
            seen.run_events.add(record["event"])
        elif kind == "block":
            yield from _event(path, where, record, order, seen)
        elif kind == "visit" and record["phase"] == SCORED:
            yield from _visit(path, where, record, planned, seen)
        elif kind == "trial" and record["phase"] == SCORED:
            key = record["key"]
            seen.trials[record["block"], key["arm"], key["visit"]].append(key["item"])


def _event(
    path: str, where: str, record: Json, order: OrderTable, seen: _Seen
) -> Iterator[Finding]:
    number = record["block"]
    if not isinstance(number, int) or not 0 <= number < len(order.blocks):
        yield changed(path, f"{where}: block {number} is not in the frozen order")
        return
    if record["event"] == "spare" and not order.blocks[number].spare:
        yield changed(path, f"{where}: block {number} is no spare")
    seen.events[record["event"]].add(number)


def _visit(
    path: str, where: str, record: Json, planned: dict[VisitKey, Visit], seen: _Seen
) -> Iterator[Finding]:
    key = record["key"]
    place: VisitKey = (key["block"], key["arm"], key["visit"])
    named = f"{where}: block {place[0]}, arm {place[1]}, visit {place[2]}"
    ordered = planned.get(place)
    if ordered is None:
        yield changed(path, f"{named}: not in the frozen order")
        return
    if place in seen.visits:
        yield changed(path, f"{named}: recorded twice; a visit is measured once")
    seen.visits.setdefault(place, record)
    seen.positions[place[0]].append(ordered.position)
    yield from _timing(path, named, record["timing"])
    for name, expected in (("position", ordered.position), ("launch", ordered.launch)):
        if record[name] != expected:
            yield changed(path, f"{named}: {name}: found {record[name]}, expected {expected}")


def _timing(path: str, named: str, timing: Json) -> Iterator[Finding]:
    """Times are whole nanoseconds; a text, a bool or a gap in their place is no measurement."""
    for name, value in {"decode_ns": None, **timing}.items():
        if type(value) is not int or value < 0:
            yield changed(path, f"{named}: timing.{name}: found {value!r}, expected nanoseconds")


def _order_within(path: str, order: OrderTable, seen: _Seen) -> Iterator[Finding]:
    for number, positions in sorted(seen.positions.items()):
        if number not in seen.events["interrupted"] and positions != sorted(positions):
            yield changed(
                path, f"block {number}: visited in order {positions}, expected {sorted(positions)}"
            )
        if order.blocks[number].spare and number not in seen.events["spare"]:
            yield changed(path, f"block {number}: a spare was visited without replacing a block")


def _blocks(
    path: str, order: OrderTable, ids: Sequence[str] | None, seen: _Seen
) -> Iterator[Finding]:
    settled = seen.events["finished"] | seen.events["interrupted"] | seen.events["void"]
    complete = "finished" in seen.run_events and "void" not in seen.run_events
    ordered = {(v.block, v.arm, v.visit) for block in order.blocks for v in block.visits}
    for place in sorted(set(seen.trials) - ordered):
        yield changed(
            path, f"trials of block {place[0]}, arm {place[1]}, visit {place[2]}: not ordered"
        )
    for place in sorted((set(seen.trials) & ordered) - set(seen.visits)):
        yield changed(
            path, f"trials of block {place[0]}, arm {place[1]}, visit {place[2]}: no visit"
        )
    for block in order.blocks:
        number = block.block
        if number in seen.events["finished"]:
            yield from _finished(path, block, ids, seen)
        elif complete and not block.spare and number not in settled:
            yield incomplete(path, f"block {number}: planned, but never finished")
        yield from _items(path, block, ids, seen)


def _finished(path: str, block: Block, ids: Sequence[str] | None, seen: _Seen) -> Iterator[Finding]:
    """A finished block holds every visit; an interrupted one at least each arm's first answers."""
    interrupted = block.block in seen.events["interrupted"]
    for visit in block.visits:
        key = (visit.block, visit.arm, visit.visit)
        where = f"block {visit.block}, arm {visit.arm}, visit {visit.visit}"
        if interrupted and visit.visit > 1:
            continue
        if key not in seen.visits:
            yield incomplete(path, f"{where}: ordered, but not recorded")
            continue
        missing = set(_ids(block, ids)) - set(seen.trials[key])
        if missing:
            yield incomplete(path, f"{where}: no trial of {', '.join(sorted(missing))}")
        if ids is None and len(set(seen.trials[key])) != len(block.items):
            yield incomplete(
                path, f"{where}: found {len(seen.trials[key])} trials, expected {len(block.items)}"
            )


def _items(path: str, block: Block, ids: Sequence[str] | None, seen: _Seen) -> Iterator[Finding]:
    allowed = set(_ids(block, ids))
    for visit in block.visits:
        items = seen.trials.get((visit.block, visit.arm, visit.visit), [])
        where = f"block {visit.block}, arm {visit.arm}, visit {visit.visit}"
        for item in sorted({item for item in items if items.count(item) > 1}):
            yield changed(path, f"{where}: item {item} was run twice")
        for item in sorted(set(items) - allowed) if ids is not None else []:
            yield changed(path, f"{where}: item {item} does not belong to this block")


def _ids(block: Block, ids: Sequence[str] | None) -> list[str]:
    return [ids[index] for index in block.items] if ids is not None else []


def counts(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many trials and visits a journal holds, of any phase."""
    kinds = [record.get("kind") for record in records]
    return {"trials": kinds.count("trial"), "visits": kinds.count("visit")}
