"""What a journal says about a run: which visits are done, and what became of each block.

Live and resumed runs go through the same `apply`, record by record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from sys import intern

from harness.store.canonical import Json
from harness.store.errors import ChangedError

Key = tuple[object, ...]


@dataclass
class BlockState:
    """What happened to one scored block."""

    starts: int = 0
    finished: bool = False
    """Nothing is left to do; an interrupted block is finished once its answers are complete."""
    interrupted: bool = False
    void: bool = False
    replaces: int | None = None
    visits: set[tuple[str, int]] = field(default_factory=set)
    """(arm, visit); a visit is recorded with all of its items or not at all."""


@dataclass
class RunState:
    """A run as far as its journal goes."""

    records: int = 0
    started: bool = False
    finished: bool = False
    void: str | None = None
    keys: set[Key] = field(default_factory=set)
    blocks: dict[int, BlockState] = field(default_factory=dict)
    aa_visits: dict[int, list[Json]] = field(default_factory=dict)
    """A/A block → its visit records."""
    aa: Json | None = None
    starts: Counter[str] = field(default_factory=Counter)
    """Processes started, by worker."""
    deaths: int = 0
    fingerprints: dict[str, list[float]] = field(default_factory=dict)
    """Arm → the log-probs that its first worker showed; every later one must show the same."""

    profiled: set[str] = field(default_factory=set)
    """Arms that are through the unscored profiling pass, whatever came of it."""
    clocks: dict[str, float] = field(default_factory=dict)
    """The highest clock that any visit showed, by name."""

    def block(self, number: int) -> BlockState:
        """Return the state of a block, created on first use."""
        found = self.blocks.get(number)
        if found is None:
            found = self.blocks[number] = BlockState()
        return found

    def apply(self, record: Json) -> None:
        """Take in one record.

        Raises:
            ChangedError: a record out of sequence, or a key that is already there.
        """
        if record.get("seq") != self.records:
            raise ChangedError(
                f"journal.log: record {self.records + 1} has seq {record.get('seq')!r}, "
                f"expected {self.records}"
            )
        try:
            self._take(record)
        except (KeyError, TypeError, AttributeError) as error:
            raise ChangedError(f"journal.log: record {self.records + 1} lacks {error}") from error
        self.records += 1

    def skip(self, count: int) -> None:
        """Count records in sequence that say nothing about what is left to do."""
        self.records += count

    def _take(self, record: Json) -> None:
        key = key_of(record)
        if key is not None and key in self.keys:
            raise ChangedError(f"journal.log: record {self.records + 1} repeats key {key}")
        handler = _HANDLERS.get(record["kind"])
        if handler is not None:
            handler(self, record)
        if key is not None:
            self.keys.add(key)

    def interrupted(self) -> list[int]:
        """Return the interrupted blocks, in the order of their numbers."""
        return sorted(number for number, block in self.blocks.items() if block.interrupted)

    def replaced(self) -> dict[int, int]:
        """Return interrupted block → the spare that stands in for it."""
        pairs = ((block.replaces, number) for number, block in self.blocks.items())
        return {old: new for old, new in pairs if old is not None}


def key_of(record: Json) -> Key | None:
    """Return what must be unique: a scored item counts once per arm and visit, whatever the try."""
    kind = record["kind"]
    if kind not in ("trial", "visit"):
        return None
    key = record["key"]
    place = key["item"] if kind == "trial" else key["block"]
    # Shared texts: a run of a million records has a million keys.
    base = (intern(kind), intern(record["phase"]), place, intern(key["arm"]), key["visit"])
    if record["phase"] == "scored":
        return base
    return (*base, key["attempt"], record.get("block"), record["start"])


def _run(state: RunState, record: Json) -> None:
    event = record["event"]
    state.started = True
    if event == "finished":
        state.finished = True
    elif event == "profiled":
        state.profiled.add(record["arm"])
    elif event == "void":
        state.void = record["reason"]


def _launch(state: RunState, record: Json) -> None:
    worker = record["worker"]
    state.starts[worker] = max(state.starts[worker], record["start"])
    state.deaths += record["event"] == "died"
    shown = (record.get("probe") or {}).get("fingerprint")
    if isinstance(shown, list):
        state.fingerprints.setdefault(record["arm"], shown)


def _visit(state: RunState, record: Json) -> None:
    key = record["key"]
    for name, value in (record.get("load") or {}).items():
        if name.endswith("_mhz"):
            state.clocks[name] = max(state.clocks.get(name, 0.0), value)
    if record["phase"] == "scored":
        state.block(key["block"]).visits.add((key["arm"], key["visit"]))
    elif record["phase"] == "aa":
        state.aa_visits.setdefault(key["block"], []).append(record)


def _block(state: RunState, record: Json) -> None:
    block, event = state.block(record["block"]), record["event"]
    block.starts += event == "started"
    block.finished |= event == "finished"
    block.interrupted |= event == "interrupted"
    block.void |= event == "void"
    if event == "spare":
        block.replaces = record["replaces"]


def _aa(state: RunState, record: Json) -> None:
    state.aa = record


_HANDLERS = {"run": _run, "launch": _launch, "visit": _visit, "block": _block, "aa": _aa}
