"""Nothing of one arm is left when the next one starts: processes, ports, device memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from harness.run import cgroup, family, ports, scratch
from harness.store.errors import NotReadyError
from harness.store.paths import Project, RunPaths

_PATIENCE_S = 10.0
_DEVICE_SLACK = 64 << 20


def sweep(paths: RunPaths, project: Project) -> int:
    """End what an earlier, dead runner of this run left behind; returns how many processes.

    The caller drives the run, so that nobody else's workers can carry its mark. Of the project's
    other runs, what a dead runner left empty is removed, and nothing is ended.

    Raises:
        NotReadyError: a process does not end.
    """
    mark = family.run_mark(paths.logs)
    found = family.orphans(mark)
    left = family.end(found)
    for folder in cgroup.left_by(mark):
        cgroup.end(folder)
    scratch.sweep(mark)
    if left:
        raise NotReadyError(
            f"process {left[0].pid} of an earlier start of this run can't be ended; end it, then "
            "run again"
        )
    abandoned = empty_groups()
    own = {family.run_mark(run.logs) for run in project.all_runs()} if abandoned else set()
    for group in abandoned:
        if group.run in own:
            group.remove()
    return len(found)


def empty_groups() -> list[cgroup.Group]:
    """Return the control groups that dead runners, of any run, left without a process in them."""
    gone = (group for group in cgroup.groups() if not family.runner_lives(group.runner))
    return [group for group in gone if group.empty]


class Settled:
    """What must be free again before the next worker starts."""

    def __init__(self, device: str, used: Callable[[], int] | None = None) -> None:
        self._used = used or (device_bytes if device == "cuda" else None)
        self._before = self._used() if self._used else 0
        self._ports: set[int] = set()

    def watch(self, listened: Collection[int]) -> None:
        """Remember the ports of a worker that has ended."""
        self._ports |= set(listened)

    def check(self, arm: str, *, idle: bool, patience_s: float = _PATIENCE_S) -> None:
        """Wait until ports and, with no worker alive, device memory are free.

        Raises:
            NotReadyError: they are not; the message names port and process, or the bytes.
        """
        until = time.monotonic() + patience_s
        while (problem := self._problem(idle)) is not None:
            if time.monotonic() >= until:
                raise NotReadyError(f"arms.{arm}: {problem}; end it, then run again")
            time.sleep(0.02)
        self._ports.clear()

    def _problem(self, idle: bool) -> str | None:
        held = sorted(port for port in self._ports if ports.taken(port))
        if held:
            return f"port {held[0]} of an ended worker is still held by {ports.holder(held[0])}"
        more = self._used() - self._before if self._used and idle else 0
        if more > _DEVICE_SLACK:
            return f"{more >> 20} MiB of device memory are still held after the last arm ended"
        return None


def device_bytes() -> int:
    """Return the memory in use on the first CUDA device; 0 where nothing tells it."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        return int(pynvml.nvmlDeviceGetMemoryInfo(device).used)
    except Exception:  # noqa: BLE001 - no module, no driver and no device all mean: nothing to read
        return 0
