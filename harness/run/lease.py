"""One process drives a run at a time; a second one is refused and told who is first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from filelock import FileLock, Timeout

from harness.store.clock import Clock
from harness.store.errors import HarnessError, RefusedError, StorageError
from harness.store.files import read_json, replace_json
from harness.store.paths import RunPaths

_PATIENCE_S = 0.5
"""A status probe holds the lock for less than this."""


def _lock(paths: RunPaths) -> FileLock:
    return FileLock(paths.lease, fallback_to_soft=False)


@contextmanager
def lease(paths: RunPaths, clock: Clock) -> Iterator[None]:
    """Hold the run; the operating system lets go of it when this process ends, however it ends.

    Raises:
        RefusedError: another process drives the run.
    """
    lock = _lock(paths)
    try:
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout:
        raise RefusedError(f"{paths.root.name}: already driven by {_owner(paths, clock)}") from None
    except OSError as error:
        raise StorageError(f"{paths.lease}: cannot be locked: {error.strerror}") from error
    try:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": clock.utc()}
        replace_json(paths.owner, owner)
        yield
    finally:
        paths.owner.unlink(missing_ok=True)
        lock.release()


def held(paths: RunPaths) -> bool:
    """Whether some process drives the run now."""
    if not paths.lease.exists():
        return False
    lock = _lock(paths)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


def _owner(paths: RunPaths, clock: Clock) -> str:
    """Return who drives a run and for how long; the file is never sealed, so it may name a host."""
    try:
        owner = read_json(paths.owner)
        since = str(owner["since"])
        spent = datetime.fromisoformat(clock.utc()) - datetime.fromisoformat(since)
    except (HarnessError, KeyError, ValueError):
        return "another process"
    host = owner.get("host")
    where = f" on {host}" if host not in (None, socket.gethostname()) else ""
    age = timedelta(seconds=max(0, round(spent.total_seconds())))
    return f"process {owner.get('pid')}{where} since {since} ({age} ago)"
