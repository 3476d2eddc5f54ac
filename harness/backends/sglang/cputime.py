"""CPU time of an engine: all threads of all its processes, from the kernel's scheduler.

It holds everything that the engine's processes compute: the model, the scheduler, the tokenizer
manager and the detokenizer, with their own Python. The client of `launch: server` is in the worker
and not counted. Idle engines sleep (`sleep_on_idle`), so that waiting costs next to nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence

from harness.backends.http.answers import Answer

_SCHEDULED = 2
"""Of a clock's number: time on a CPU, in nanoseconds."""


def cpu_ns(pids: Iterable[int]) -> int:
    """Return nanoseconds of CPU time that some live processes have used."""
    return sum(_of_process(pid) for pid in pids)


def _of_process(pid: int) -> int:
    """0 for a process that has ended.

    The kernel's clock of another process: all its threads, ended ones too (`clock_getcpuclockid`).
    """
    with contextlib.suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
    return 0


class Marks:
    """CPU time of an engine through one batch: at its start, its last first token, and its end."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._begun = cpu_ns(pids)
        self._first: int | None = None

    def watch(self, answers: Sequence[Answer]) -> None:
        """Take the second reading once every request has its first token, or has ended without."""
        if self._first is None and all(answer.stamps or answer.done for answer in answers):
            self._first = cpu_ns(self._pids)

    def end(self) -> tuple[int, int, int]:
        """Return (prefill, decode, total) in nanoseconds."""
        total = max(0, cpu_ns(self._pids) - self._begun)
        if self._first is None:
            return total, total, total
        prefill = min(max(0, self._first - self._begun), total)
        return prefill, total - prefill, total


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    import psutil

    try:
        own = psutil.Process(pid)
        return [pid, *(child.pid for child in own.children(recursive=True))]
    except psutil.Error:
        return []
