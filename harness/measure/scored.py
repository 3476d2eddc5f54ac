"""Which records count: scored visits and trials, split by what their blocks may be used for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.plan.order import OrderTable
from harness.store.canonical import Json

Key = tuple[int, str]


@dataclass(frozen=True)
class Blocks:
    """What became of the blocks, by number."""

    planned: frozenset[int]
    finished: frozenset[int]
    interrupted: frozenset[int]
    void: frozenset[int]
    spares: dict[int, int]
    """Spare block → the interrupted block that it replaces."""

    @property
    def timing(self) -> frozenset[int]:
        """Blocks whose timings count: finished, never interrupted or voided, spares in place."""
        usable = (self.planned | frozenset(self.spares)) & self.finished
        return usable - self.interrupted - self.void

    @property
    def quality(self) -> frozenset[int]:
        """Blocks whose answers count: every planned one that no rule voided."""
        return self.planned - self.void


@dataclass(frozen=True)
class Scored:
    """Scored visits and trials of a run, in journal order."""

    blocks: Blocks
    visits: dict[Key, list[Json]]
    """(block, arm) → visits."""
    trials: dict[tuple[str, str], list[Json]]
    """(item, arm) → trials."""
    item_block: dict[str, int]

    def visits_of(self, arm: str, blocks: Iterable[int], *, timed: bool = True) -> list[Json]:
        """Return an arm's visits to some blocks."""
        chosen = (visit for block in sorted(blocks) for visit in self.visits.get((block, arm), []))
        return [visit for visit in chosen if visit["timed"] or not timed]

    def items_of(self, blocks: Iterable[int]) -> list[str]:
        """Return the items of some blocks, in journal order."""
        wanted = set(blocks)
        return [item for item, block in self.item_block.items() if block in wanted]

    def first(self, item: str, arm: str) -> Json | None:
        """Return an arm's first trial of an item, or None."""
        trials = self.trials.get((item, arm))
        return trials[0] if trials else None


def scored(records: Iterable[Json], order: OrderTable) -> Scored:
    """Index the scored records of a journal."""
    events: dict[str, set[int]] = defaultdict(set)
    spares: dict[int, int] = {}
    visits: dict[Key, list[Json]] = defaultdict(list)
    trials: dict[tuple[str, str], list[Json]] = defaultdict(list)
    item_block: dict[str, int] = {}
    for record in records:
        kind = record["kind"]
        if kind == "block":
            events[record["event"]].add(record["block"])
            if record["event"] == "spare":
                spares[record["block"]] = record["replaces"]
        elif record.get("phase") == "scored":
            key: dict[str, Any] = record["key"]
            if kind == "visit":
                visits[key["block"], key["arm"]].append(record)
            elif kind == "trial":
                trials[key["item"], key["arm"]].append(record)
                item_block.setdefault(key["item"], record["block"])
    blocks = Blocks(
        frozenset(block.block for block in order.planned),
        frozenset(events["finished"]),
        frozenset(events["interrupted"]),
        frozenset(events["void"]),
        spares,
    )
    for group in (*visits.values(), *trials.values()):
        group.sort(key=lambda record: (record["key"]["visit"], record["key"]["attempt"]))
    return Scored(blocks, dict(visits), dict(trials), item_block)
