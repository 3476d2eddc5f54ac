"""Durations around device synchronisation."""

from __future__ import annotations

import time

import torch

from harness.looped.generation import Phase


class Stopwatch:
    """Wall and thread CPU time since the start; on CUDA, after the device has caught up."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._wall, self._cpu = self._now()

    def read(self) -> Phase:
        """The time since the stopwatch was made."""
        wall, cpu = self._now()
        return Phase(wall - self._wall, cpu - self._cpu)

    def _now(self) -> tuple[int, int]:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter_ns(), time.thread_time_ns()


def between(earlier: Phase, later: Phase) -> Phase:
    """The phase from one reading to the next."""
    return Phase(later.wall_ns - earlier.wall_ns, later.cpu_ns - earlier.cpu_ns)
