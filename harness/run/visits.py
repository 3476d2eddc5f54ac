"""One visit: reset, generate within the limits, and the records that it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from harness.plan.schema import Limits
from harness.run import replies
from harness.run.context import RunItem
from harness.run.process import (
    WorkerDiedError,
    WorkerProcess,
    WorkerReplyError,
    WorkerTimeoutError,
)
from harness.run.telemetry import Reading, Telemetry
from harness.store.canonical import Json

Phase = Literal["scored", "aa", "warmup", "profile"]


@dataclass(frozen=True)
class Assignment:
    """Which items are visited, and under which key."""

    phase: Phase
    block: int | None
    """None for warm-up."""
    visit: int
    attempt: int
    position: int
    number: int
    """Running number of the visit within its phase."""
    items: tuple[RunItem, ...]
    recovering: bool = False
    """Whether only the answers of an interrupted block are completed; nothing is timed then."""

    @property
    def timed(self) -> bool:
        """Whether its time can count: it is scored, and measured where the order wants it."""
        return self.phase == "scored" and not self.recovering


@dataclass(frozen=True)
class Measured:
    """What a visit yielded; time-outs, errors and full memory are outcomes too."""

    results: list[Json]
    timing: dict[str, int]
    entries_before: int = 0
    hits: int = 0
    peak_bytes: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    patch_counters: dict[str, int] = field(default_factory=dict)
    load: Json = field(default_factory=dict)
    samples: list[Reading] = field(default_factory=list)
    started_utc: str = ""
    error: str | None = None
    lost: bool = False
    """The worker had to be killed."""

    @property
    def status(self) -> str:
        """The worst status of the items."""
        found = {str(result["status"]) for result in self.results}
        return max(found, key=replies.STATUSES.index)

    @property
    def answered(self) -> bool:
        """Whether the worker itself reported an answer, so that its counters mean something."""
        return self.error is None and any(r["status"] in ("ok", "nan") for r in self.results)


def measure(
    process: WorkerProcess,
    assignment: Assignment,
    limits: Limits,
    telemetry: Telemetry,
    utc: Callable[[], str],
) -> Measured:
    """Run one visit.

    Raises:
        WorkerDiedError: the process ended before it replied, or could not be reset.
    """
    entries = _reset(process, limits)
    items = [{"id": item.id, "prompt": item.prompt} for item in assignment.items]
    request = {"op": "generate", "id": assignment.number, "items": items}
    request["timeout_s"] = limits.item_timeout_s
    started, began = utc(), time.monotonic_ns()
    try:
        reply = process.request(request, limits.block_timeout_s, telemetry.sample)
        measured = _measured(reply, [item.id for item in assignment.items])
    except WorkerTimeoutError as error:
        floor = round(limits.block_timeout_s * 1e9)
        elapsed = max(time.monotonic_ns() - began, floor)
        measured = failed(assignment, "timeout", str(error), elapsed, lost=True)
    except WorkerReplyError as error:
        status = "oom" if error.kind == "oom" else "error"
        measured = failed(assignment, status, str(error), time.monotonic_ns() - began)
    return Measured(
        **{
            **measured.__dict__,
            "entries_before": max(entries, measured.entries_before),
            "load": telemetry.summary(),
            "samples": telemetry.samples,
            "started_utc": started,
        }
    )


def failed(
    assignment: Assignment, status: str, error: str, elapsed_ns: int, *, lost: bool = False
) -> Measured:
    """Return a visit without results; the time that it took counts in every field."""
    return Measured(
        results=[replies.blank(status) for _ in assignment.items],
        timing=dict.fromkeys(replies.TIMINGS, elapsed_ns),
        error=error,
        lost=lost,
    )


def _reset(process: WorkerProcess, limits: Limits) -> int:
    try:
        reply = process.request({"op": "reset"}, limits.start_timeout_s)
        return replies.natural(reply, "cache_entries")
    except WorkerReplyError as error:
        process.kill()
        raise WorkerDiedError(f"reset failed: {error}") from error


def _measured(reply: Json, items: list[str]) -> Measured:
    return Measured(
        results=replies.results(reply, items),
        timing={name: replies.natural(reply, "timing", name) for name in replies.TIMINGS},
        entries_before=replies.natural(reply, "cache", "entries_before"),
        hits=replies.natural(reply, "cache", "hits"),
        peak_bytes=replies.natural(reply, "cache", "peak_bytes"),
        counters=replies.counters(reply.get("counters")),
        patch_counters=replies.counters(reply.get("patch_counters")),
    )
