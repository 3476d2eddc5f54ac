"""The journal records of a visit: one per item, then the visit that closes them."""

from __future__ import annotations

from collections.abc import Callable

from harness.run.context import RunItem
from harness.run.seats import Live
from harness.run.visits import Assignment, Measured
from harness.store.canonical import Json

Score = Callable[[RunItem, str], Json]

UNSCORED = ("warmup", "profile")

_NO_ANSWER: Json = {"status": "no_answer", "answer": None}


def visit_records(
    assignment: Assignment, live: Live, measured: Measured, score: Score
) -> list[Json]:
    """Return the records that one append writes."""
    common = {"phase": assignment.phase, "launch": live.seat.launch, "start": live.start}
    numbers = {
        "arm": live.seat.worker,
        "visit": assignment.visit,
        "attempt": assignment.attempt,
    }
    records: list[Json] = [
        {
            "kind": "trial",
            **common,
            "key": {"item": item.id, **numbers},
            "block": assignment.block,
            **result,
            "score": _scored(assignment, item, result, score),
            "recovered": assignment.recovering,
        }
        for item, result in zip(assignment.items, measured.results, strict=True)
    ]
    visit: Json = {
        "kind": "visit",
        **common,
        "key": {"block": assignment.block, **numbers},
        "position": assignment.position,
        "arm": live.seat.arm,
        "worker": live.seat.worker,
        "status": measured.status,
        "timing": measured.timing,
        "tokens": sum(len(result["token_ids"]) for result in measured.results),
        "cache": {
            "entries_before": measured.entries_before,
            "hits": measured.hits,
            "peak_bytes": str(measured.peak_bytes),
        },
        "counters": measured.counters,
        "patch_counters": measured.patch_counters,
        "load": measured.load,
        "started_utc": measured.started_utc,
        "timed": not assignment.recovering and assignment.phase not in UNSCORED,
    }
    if measured.error is not None:
        visit["error"] = measured.error
    return [*records, visit]


def _scored(assignment: Assignment, item: RunItem, result: Json, score: Score) -> Json | None:
    if assignment.phase in UNSCORED:
        return None
    return score(item, result["text"]) if result["status"] == "ok" else dict(_NO_ANSWER)
