"""The engine's process as a child that may die at any time: its last words are kept."""

from __future__ import annotations

import collections
import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import psutil

from harness.backends.sglang.cputime import family

_KEPT = 400
_PATIENCE_S = 5.0
_TIDY_S = 1.0
_SECONDARY = (
    "scheduler died", "Triggering SIGQUIT", "SIGQUIT received", "initialization failed",
    "kill_process_tree", "Received sigquit", "leaked semaphore", "resource_tracker",
)  # fmt: skip
"""Lines by which SGLang says that something else had failed before."""
_CRASHED = "crashed with exit code"
_CAUSE = re.compile(r"^\s*(?:[\w.]+(?:Error|Exception|Interrupt)\b.*|.*\berror: .*)")
_MEMORY = ("out of memory", "OutOfMemoryError", "MemoryError", "Not enough memory")


class Child:
    """One process of the engine with its descendants, in this worker's process group."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, wire: bool
    ) -> None:
        """Start it; with `wire`, its standard streams are kept for messages."""
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT)
        self._known: dict[int, psutil.Process] = {}
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE if wire else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if wire else subprocess.STDOUT,
            env=dict(environment),
        )
        self._said = self.process.stderr if wire else self.process.stdout
        self._tee = threading.Thread(target=self._listen, daemon=True)
        self._tee.start()

    @property
    def alive(self) -> bool:
        """Whether the process itself still runs."""
        return self.process.poll() is None

    def pids(self) -> list[int]:
        """Return its process ids; all that were ever seen are ended with it."""
        found = family(self.process.pid)
        for pid in found:
            if pid not in self._known:
                with contextlib.suppress(psutil.Error):
                    self._known[pid] = psutil.Process(pid)
        return found

    def last_words(self) -> str:
        """Return how it ended and the line that says why, as one line."""
        self._tee.join(1.0)
        code = self.process.poll()
        how = "still runs" if code is None else f"exit status {code}"
        if code is not None and code < 0:
            how = f"signal {-code}"
        why = cause(list(self._lines))
        return f"{how}: {why}" if why else how

    def await_exit(self, within_s: float = 2.0) -> None:
        """Let it end by itself, so that its own exit status and last words are told."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)

    def out_of_memory(self) -> bool:
        """Whether its last words are about memory."""
        return any(sign in line for line in self._lines for sign in _MEMORY)

    def stop(self) -> None:
        """End it and everything that it started.

        Python's trackers of shared memory and semaphores end by themselves and tidy up meanwhile.
        """
        self.pids()
        trackers = [one for one in self._known.values() if _is_tracker(one)]
        others = [one for one in self._known.values() if one not in trackers]
        with contextlib.suppress(OSError):
            self.process.kill()
        _kill(others)
        self.process.wait()
        _await(others, _PATIENCE_S)
        _kill(_await(trackers, _TIDY_S))
        self._tee.join(1.0)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _listen(self) -> None:
        assert self._said is not None
        with contextlib.suppress(OSError, ValueError):
            for raw in self._said:
                line = raw.decode("utf-8", "replace").rstrip()
                self._lines.append(line)
                sys.stderr.write(f"{line}\n")


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _await(processes: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait until processes have ended, reaped or not; return those that have not."""
    deadline = time.monotonic() + within_s
    left = [one for one in processes if _runs(one)]
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [one for one in left if _runs(one)]
    return left


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_tracker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def cause(lines: Sequence[str]) -> str:
    """Return the line that says why an engine failed: the last error that names no other failure.

    Without one it is what SGLang says of a process that died, or else the last line.
    """
    told = [line.strip() for line in lines if line.strip()]
    first_hand = [line for line in told if not any(sign in line for sign in _SECONDARY)]
    errors = [line for line in first_hand if _CAUSE.match(line)]
    crashed = [line for line in told if _CRASHED in line]
    chosen = errors or crashed or first_hand or told
    return chosen[-1][:300] if chosen else ""
