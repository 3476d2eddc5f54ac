"""Who works where: a seat is a role in a phase, a live worker is the process that fills it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.run.process import WorkerProcess
from harness.store.canonical import Json


@dataclass(frozen=True)
class Seat:
    """A worker by name (`aa_1`, or its arm), the arm that it runs, and the launch in the order."""

    worker: str
    arm: str
    launch: int
    under: tuple[str, ...] = ()
    """What the worker is started below, such as a profiler; never where anything is scored."""


@dataclass(frozen=True)
class Live:
    """A ready worker."""

    seat: Seat
    process: WorkerProcess
    start: int
    """1, 2, … over all processes of this worker in the run; a restart counts."""
    hello: Json
    probe: Json

    @property
    def claims(self) -> bool:
        """Whether the engine says that it is patched."""
        patch = self.hello.get("patch")
        return isinstance(patch, dict) and patch.get("claims") is True
