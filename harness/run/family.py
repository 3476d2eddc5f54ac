"""Which processes a worker started: found by a mark in their environment, wherever they moved to.

A child keeps the mark when it leaves its parent, its group and its session, and after the runner's
own death; nothing without the mark is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from harness.store.randomness import derive

WORKER, RUN, RUNNER = "HARNESS_WORKER", "HARNESS_RUN", "HARNESS_RUNNER"
_PROC = Path("/proc")


def run_mark(folder: Path) -> str:
    """Return the mark of every process of the run whose logs lie in `folder`, in any locale."""
    name = os.fsencode(folder.resolve()).decode("utf-8", "replace")
    return derive("run-mark-v1", name).hex()[:16]


def marks(folder: Path) -> dict[str, str]:
    """Return the environment variables of a new worker; `WORKER` is unique."""
    own = psutil.Process()
    runner = f"{own.pid}:{own.create_time():.2f}"
    return {WORKER: secrets.token_hex(8), RUN: run_mark(folder), RUNNER: runner}


def marked(variable: str, value: str | None = None) -> list[psutil.Process]:
    """Return the live processes whose environment has the variable (with that value), but not us.

    Processes of other users can't be read and are left out: this user didn't start them.
    """
    start = f"{variable}={'' if value is None else value}".encode()
    found = []
    for pid, environment in _environments():
        entries = environment.split(b"\0")
        hit = any(e.startswith(start) if value is None else e == start for e in entries)
        if hit and pid != os.getpid():
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pid))
    return [process for process in found if alive(process)]


def is_marked(pid: int) -> bool:
    """Whether a process was started by a run, as far as this user can tell.

    Its ancestors count too: a program that renames itself may overwrite its own environment.
    """
    try:
        process = psutil.Process(pid)
        return any(_has_mark(one) for one in (process, *process.parents()))
    except psutil.Error:
        return False


def _has_mark(process: psutil.Process) -> bool:
    try:
        return RUN in process.environ()
    except psutil.Error:
        return False


def descendants(pids: Iterable[int]) -> set[int]:
    """Return the children of processes, theirs, and so on: an engine may be a worker's child."""
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        new = set(_children(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def _children(pid: int) -> list[int]:
    listed = _PROC / str(pid) / "task"
    if not (listed / str(pid) / "children").exists():
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in listed.iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text("ascii").split())
    return found


def _environments() -> Iterator[tuple[int, bytes]]:
    if not _PROC.joinpath("self", "environ").exists():
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                pairs = (f"{name}={value}" for name, value in process.environ().items())
                yield process.pid, "\0".join(pairs).encode()
        return
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(folder.name), folder.joinpath("environ").read_bytes()


def alive(process: psutil.Process) -> bool:
    """Whether a process still runs; a zombie has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end(processes: list[psutil.Process], within_s: float = 5.0) -> list[psutil.Process]:
    """Kill processes and wait; returns those that did not end."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    until = time.monotonic() + within_s
    left = [process for process in processes if alive(process)]
    while left and time.monotonic() < until:
        time.sleep(0.005)
        left = [process for process in left if alive(process)]
    return left


def orphans(mark: str | None = None) -> list[psutil.Process]:
    """Return marked processes, of one run or of any, whose runner is no longer there."""
    found = marked(RUN, mark)
    return [process for process in found if not runner_lives(_runner(process))]


def _runner(process: psutil.Process) -> str:
    try:
        return process.environ().get(RUNNER, "")
    except psutil.Error:
        return ""


def runner_lives(mark: str) -> bool:
    """Whether the runner of that mark still runs: its number alone may be another's by now."""
    try:
        pid, _, created = mark.partition(":")
        runner = psutil.Process(int(pid))
        return alive(runner) and abs(runner.create_time() - float(created)) < 0.02
    except (psutil.Error, ValueError):
        return False
