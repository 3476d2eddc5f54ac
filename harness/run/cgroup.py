"""A control group per worker where the system allows one: nothing that starts in it gets out.

Control files are the kernel's, not the disk's, so that they are written here.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 2.0
_NAME = re.compile(r"harness-(?P<run>[0-9a-f]{16})-[0-9a-f]{16}-(?P<runner>\d+_[\d.]+)")


@dataclass(frozen=True)
class Group:
    """A group that a runner made; its folder's name holds the run's mark and the runner's."""

    folder: Path
    run: str
    runner: str

    @property
    def empty(self) -> bool:
        """Whether no process is left in it or below it, as far as the kernel tells."""
        try:
            return "populated 0" in (self.folder / "cgroup.events").read_text(encoding="ascii")
        except OSError:
            return False

    def remove(self) -> None:
        """Remove it if it is empty; the kernel refuses any other."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def _mounts() -> list[Path]:
    """Return where the unified hierarchy is mounted."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [Path(line.split()[1]) for line in lines if line.split()[2] == "cgroup2"]


def groups() -> list[Group]:
    """Return every group that a runner made, wherever it was started from."""
    named = (
        (folder, _NAME.fullmatch(folder.name))
        for root in _mounts()
        for folder in sorted(root.rglob("harness-*"))
    )
    return [
        Group(folder, match["run"], match["runner"].replace("_", ":"))
        for folder, match in named
        if match is not None
    ]


def _own() -> Path | None:
    """Return this process's folder in the unified hierarchy, or None where there is none."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    roots, paths = _mounts(), [line.partition("::")[2] for line in lines if line.startswith("0::")]
    return Path(roots[0], paths[0].lstrip("/")) if roots and paths else None


def enter(run: str, worker: str, runner: str, pid: int) -> Path | None:
    """Put a process that has just started into a new group; None where that is not allowed."""
    own = _own()
    if own is None:
        return None
    folder = own / f"harness-{run}-{worker}-{runner.replace(':', '_')}"
    try:
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return folder


def members(folder: Path | None) -> list[int]:
    """Return the processes of a group."""
    with contextlib.suppress(OSError, ValueError):
        if folder is not None:
            text = (folder / "cgroup.procs").read_text(encoding="ascii")
            return [int(word) for word in text.split()]
    return []


def end(folder: Path | None) -> None:
    """Kill whatever is left in a group and remove it."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1", encoding="ascii")
    until = time.monotonic() + _PATIENCE_S
    while folder.exists() and time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.005)


def left_by(run: str) -> list[Path]:
    """Return the groups that a run's earlier runner left."""
    return [group.folder for group in groups() if group.run == run]
