"""A control group per worker where the system allows one: nothing that starts in it gets out.

Control files are the kernel's, not the disk's, so that they are written here.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

_PATIENCE_S = 2.0


def _own() -> Path | None:
    """Return this process's folder in the unified hierarchy, or None where there is none."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    paths = [line.partition("::")[2] for line in groups if line.startswith("0::")]
    return Path(roots[0], paths[0].lstrip("/")) if roots and paths else None


def enter(run: str, worker: str, pid: int) -> Path | None:
    """Put a process that has just started into a new group; None where that is not allowed."""
    own = _own()
    if own is None:
        return None
    folder = own / f"harness-{run}-{worker}"
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
    own = _own()
    return sorted(own.glob(f"harness-{run}-*")) if own else []
