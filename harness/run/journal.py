"""The run's journal: framed records with contiguous numbers, and the state that they imply."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType

from harness.run.interrupts import Interrupts
from harness.run.state import RunState
from harness.store.canonical import Json, parse
from harness.store.clock import Clock
from harness.store.errors import ChangedError
from harness.store.framed import AROUND, FramedLog
from harness.store.paths import RunPaths


def _closes(record: Json) -> bool:
    """Whether a record can be the last one of an append; a visit closes what it is made of."""
    return (record["kind"], record.get("event")) != ("block", "void")


_VISIT = re.compile(
    rb'"key":\{"arm":"([\w.-]+)","attempt":\d+,"block":(\d+),"visit":(\d+)\},"kind":"visit",'
    rb'"launch":\d+,"load":(\{[^{}]*\}),"patch_counters":\{[^{}]*\},"phase":"scored",'
    rb'"position":\d+,"seq":(\d+),"start":'
)
"""What a scored visit says of the state. A quote inside a text is escaped, so no text matches."""


def _scored_visit(body: bytes) -> Json | None:
    """Return what the state needs of a scored visit, without reading the rest; None if another."""
    found = _VISIT.search(body)
    if found is None:
        return None
    arm, block, visit, load, seq = found.groups()
    return {
        "kind": "visit",
        "phase": "scored",
        "key": {"arm": arm.decode(), "block": int(block), "visit": int(visit)},
        "load": parse(load) if b'_mhz"' in load else None,
        "seq": int(seq),
    }


class Journal:
    """Opening replays what is there; a torn tail is set aside first.

    Trials are counted, not read: a visit is recorded with all of its trials or not at all, so that
    its own key tells what is done. Sealing reads every record whole.
    """

    def __init__(self, paths: RunPaths, clock: Clock, interrupts: Interrupts) -> None:
        self.state = RunState()
        self._clock = clock
        self._interrupts = interrupts
        self._log = FramedLog(paths.journal, self._replay)
        self.torn_bytes = self._log.torn_bytes

    def _replay(self, bodies: Iterator[bytes]) -> int:
        """Take in a journal, append by append; return the bytes of those that are whole."""
        position = closed = 0
        waiting: list[tuple[int, Json]] = []
        for number, body in enumerate(bodies):
            position += len(body) + AROUND
            # In canonical JSON a trial alone starts with its block and holds such a pair.
            trial = body.startswith(b'{"block":') and b'"kind":"trial"' in body
            if trial and b'"seq":%d,' % number in body:
                continue
            record = self._read(body, number)
            waiting.append((number, record))
            if not trial and _closes(record):
                self._apply(waiting)
                waiting.clear()
                closed = position
        return closed

    def _apply(self, records: list[tuple[int, Json]]) -> None:
        """Apply the records of one append by their places; those between were counted."""
        for number, record in records:
            self.state.skip(number - self.state.records)
            self.state.apply(record)

    def _read(self, body: bytes, number: int) -> Json:
        try:
            record: Json = _scored_visit(body) or parse(body)
        except ValueError as error:
            text = f"journal.log: record {number + 1} is not strict JSON: {error}"
            raise ChangedError(text) from error
        return record

    def append(self, *records: Json) -> None:
        """Number the records and write them as one synced append; all of them or none are kept.

        Raises:
            ChangedError: a key is already there. StorageError: the disk refused.
        """
        first = self.state.records
        numbered = [{**record, "seq": first + place} for place, record in enumerate(records)]
        with self._interrupts.held():
            for record in numbered:
                self.state.apply(record)
            self._log.append(*numbered)

    def note(self, kind: str, **fields: object) -> None:
        """Append one record with a time stamp."""
        self.append({"kind": kind, "at": self._clock.utc(), **fields})

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()
