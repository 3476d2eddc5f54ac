"""The run's journal: framed records with contiguous numbers, and the state that they imply."""

from __future__ import annotations

from types import TracebackType

from harness.run.interrupts import Interrupts
from harness.run.state import RunState
from harness.store.canonical import Json, parse
from harness.store.clock import Clock
from harness.store.errors import ChangedError
from harness.store.framed import FramedLog
from harness.store.paths import RunPaths


def _closes(record: Json) -> bool:
    """Whether a record can be the last one of an append; a visit closes what it is made of."""
    return (record["kind"], record.get("event")) != ("block", "void")


def _is_trial(body: bytes) -> bool:
    """Whether a record is a trial, told without reading it.

    In canonical JSON a trial alone starts with its block and holds this pair outside of any text.
    """
    return body.startswith(b'{"block":') and b'"kind":"trial"' in body


class Journal:
    """Opening replays what is there; a torn tail is set aside first.

    Trials are counted, not read: a visit is recorded with all of its trials or not at all, so that
    its own key tells what is done.
    """

    def __init__(self, paths: RunPaths, clock: Clock, interrupts: Interrupts) -> None:
        self.state = RunState()
        self._clock = clock
        self._interrupts = interrupts
        self._waiting: list[Json | None] = []
        self._log = FramedLog(paths.journal, self._take)
        self.torn_bytes = self._log.torn_bytes

    def _take(self, body: bytes) -> bool:
        """Take in one record of the file; those of an open group wait until it is closed."""
        if _is_trial(body):
            number = self.state.records + len(self._waiting)
            trial = b'"seq":%d,' % number in body
            self._waiting.append(None if trial else self._read(body))
            return False
        record = self._read(body)
        self._waiting.append(record)
        if not _closes(record):
            return False
        for one in self._waiting:
            if one is None:
                self.state.skip()
            else:
                self.state.apply(one)
        self._waiting.clear()
        return True

    def _read(self, body: bytes) -> Json:
        try:
            record: Json = parse(body)
        except ValueError as error:
            number = self.state.records + len(self._waiting) + 1
            raise ChangedError(
                f"journal.log: record {number} is not strict JSON: {error}"
            ) from error
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
