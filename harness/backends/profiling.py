"""Where an engine's time goes: torch's profiler where the engine uses torch, else Python's own."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS = 40
"""Entries that are kept, by their own time."""

Profile = dict[str, Any]


def profile(work: Callable[[], object], *, torch: bool, tool: str | None = None) -> Profile:
    """Run some work once and return {tool, rows: [{name, calls, self_ns, total_ns}]}.

    With `tool: ncu` Nsight Compute looks from outside, and is told when.
    """
    if tool == "ncu":
        return _watched(work, torch=torch)
    return _torch(work) if torch else _python(work)


def _watched(work: Callable[[], object], *, torch: bool) -> Profile:
    if not torch:
        work()
        return {"tool": "ncu", "rows": []}
    import torch as engine

    engine.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        work()
        engine.cuda.synchronize()
    finally:
        engine.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    return {"tool": "ncu", "rows": []}


def _torch(work: Callable[[], object]) -> Profile:
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    activities = [ProfilerActivity.CPU]
    on_device = torch.cuda.is_available()
    if on_device:
        activities.append(ProfilerActivity.CUDA)
    with record(activities=activities, acc_events=True) as found:
        work()
    which = "device_time" if on_device else "cpu_time"
    rows = [
        {
            "name": str(event.key),
            "calls": int(event.count),
            "self_ns": round(1e3 * float(getattr(event, f"self_{which}_total"))),
            "total_ns": round(1e3 * float(getattr(event, f"{which}_total"))),
        }
        for event in found.key_averages()
    ]
    return {"tool": f"torch.profiler {torch.__version__}", "rows": _top(rows)}


def _python(work: Callable[[], object]) -> Profile:
    recorder = cProfile.Profile()
    recorder.runcall(work)
    table: dict[Any, Any] = pstats.Stats(recorder).stats  # type: ignore[attr-defined]
    rows = [
        {
            "name": f"{Path(file).name}:{function}",
            "calls": int(calls),
            "self_ns": round(own * 1e9),
            "total_ns": round(total * 1e9),
        }
        for (file, _, function), (_, calls, own, total, _) in table.items()
    ]
    return {"tool": "cProfile", "rows": _top(rows)}


def _top(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["self_ns"], row["name"]))[:ROWS]
