"""The run's journal: framed records with contiguous numbers, and the state that they imply."""

from __future__ import annotations

from types import TracebackType

from harness.run.interrupts import Interrupts
from harness.run.state import RunState
from harness.store.canonical import Json
from harness.store.clock import Clock
from harness.store.framed import FramedLog
from harness.store.paths import RunPaths


def _closes(record: Json) -> bool:
    """Whether a record can be the last one of an append; a visit closes what it is made of."""
    made_of = record["kind"] == "trial" or (record["kind"], record.get("event")) == (
        "block",
        "void",
    )
    return not made_of


class Journal:
    """Opening replays what is there; a torn tail is set aside first."""

    def __init__(self, paths: RunPaths, clock: Clock, interrupts: Interrupts) -> None:
        self.state = RunState()
        self._clock = clock
        self._interrupts = interrupts
        self._log = FramedLog(paths.journal, _closes)
        self.torn_bytes = len(self._log.recovered.torn)
        try:
            for record in self._log.recovered.records:
                self.state.apply(record)
        except BaseException:
            self._log.close()
            raise

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
