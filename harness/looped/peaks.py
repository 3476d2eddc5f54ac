"""How much memory a computation really takes, beside what stood allocated before it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

_MEMORY = "[memory]"


def measured_peak(run: Callable[[], object], device: torch.device) -> int:
    """The most bytes that torch's allocator handed out at once while `run` ran.

    Counted from the allocator's own records: on CUDA its statistics, on the CPU the events that
    the profiler keeps, which slows the run down. What libraries allocate by themselves is not seen.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = seen.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == _MEMORY]
    now = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        now += change
        peak = max(peak, now)
    return peak
