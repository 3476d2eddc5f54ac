"""What a run is given and what it gives back: plain values and callables, nothing global."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from harness.plan.order import OrderTable
from harness.plan.schema import Plan
from harness.run.process import WorkerProcess
from harness.store.canonical import Json
from harness.store.clock import CLOCK, Clock
from harness.store.paths import Project, RunPaths

Role = Literal["registered", "replication", "unregistered"]


class RunItem(Protocol):
    """What the runner needs of an item; `harness.tasks.Item` has it."""

    @property
    def id(self) -> str:
        """Unique within the run."""
        ...

    @property
    def prompt(self) -> str:
        """What every arm is given."""
        ...

    @property
    def answer(self) -> str:
        """The reference, for scoring."""
        ...


class WorkerFactory(Protocol):
    """Starts the process of an arm, below a profiler or alone; its standard error goes to `log`."""

    def __call__(self, arm: str, log: Path, under: Sequence[str] = ()) -> WorkerProcess:
        """Return at once, before the worker is ready."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far a run is, in visits, and what it does now."""

    total: int
    done: int
    text: str


def silent(_: Progress) -> None:
    """Show nothing."""


def no_own_environment(_: str) -> Json | None:
    """Every arm runs in the harness's own environment."""
    return None


def all_unchanged() -> None:
    """Nothing is frozen."""


def no_checks() -> list[Json]:
    """Check nothing before the run."""
    return []


@dataclass(frozen=True)
class RunContext:
    """One execution of one resolved plan."""

    project: Project
    plan: Plan
    paths: RunPaths
    order: OrderTable
    items: Sequence[RunItem]
    """Of the plan's stage, in drawn order, spares included; blocks hold indices into it."""
    explore: Sequence[RunItem]
    """For A/A and warm-up; they never touch the scored items."""
    score: Callable[[RunItem, str], Json]
    """(item, text) → {status: right | wrong | no_answer, answer}."""
    start_worker: WorkerFactory
    aa_interval: Callable[[Sequence[float]], Json]
    """Log ratios, one per A/A block → {estimate, low, high, …}; an end may be None."""
    seed: str
    """Given to every worker."""
    role: Role = "unregistered"
    selftest: Callable[[], list[Json]] = no_checks
    """→ [{name, ok, detail}]; anything that is not ok stops the run before it starts."""
    unchanged: Callable[[], None] = all_unchanged
    """Called before every block; raises `ChangedError` when a frozen file is no longer that."""
    environment: Callable[[str], Json | None] = no_own_environment
    """Arm → versions and tree of its own environment, checked at every start of a worker."""
    clock: Clock = CLOCK
    progress: Callable[[Progress], None] = silent


@dataclass(frozen=True)
class RunOutcome:
    """A finished run in numbers."""

    planned: int
    finished: int
    interrupted: int
    void: int
    spare_used: int
    deaths: int
    timing_void: str | None
    """Why no timing prediction can be judged, or None."""
    aa: Json | None
