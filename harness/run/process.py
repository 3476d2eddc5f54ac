"""A worker as a child process: own session, own log, and a deadline on every exchange."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import psutil

from harness.run import cgroup, family, ports, scratch
from harness.run.privacy import scrub
from harness.store.canonical import Json, parse
from harness.store.files import storage_errors

_TICK_S = 0.25
_LINE_LIMIT = 256 << 20
_READ = 1 << 16
_TAIL = 4096


class WorkerDiedError(Exception):
    """The process ended, or was ended, before it replied; the text is its last word."""


class WorkerTimeoutError(WorkerDiedError):
    """No reply by the deadline; the process has been killed."""


class WorkerReplyError(Exception):
    """The worker replied that it could not do it, or replied nonsense; it still runs."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WorkerProcess:
    """One started worker; only what this object started is ever signalled."""

    def __init__(
        self, command: Sequence[str], log: Path, *, environment: Mapping[str, str], folder: Path
    ) -> None:
        self.command = list(command)
        self.log = log
        with storage_errors(log):
            log.parent.mkdir(parents=True, exist_ok=True)
            handle = log.open("ab")
        marks = family.marks(log.parent)
        self._mark = marks[family.WORKER]
        self._scratch = scratch.folder_of(marks[family.RUN], self._mark)
        told = {**environment, **marks, scratch.VARIABLE: str(self._scratch)}
        with handle:
            self._child = _start(self.command, handle, told, folder)
        run, runner = marks[family.RUN], marks[family.RUNNER]
        self._group = cgroup.enter(run, self._mark, runner, self._child.pid)
        self.ports: set[int] = set()
        """Ports that its family listened on when it was ended."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._buffer = bytearray()
        self._ended = False

    @property
    def pid(self) -> int:
        """Process id, which is also its group's."""
        return self._child.pid

    def request(
        self, message: Json, timeout_s: float, tick: Callable[[], None] | None = None
    ) -> Json:
        """Send a message and return the reply, a whole-object with `ok` true; never waits longer.

        Raises:
            WorkerTimeoutError: no reply in time. WorkerDiedError: the process ended.
            WorkerReplyError: the worker refused.
        """
        deadline = time.monotonic() + timeout_s
        self._send(json.dumps(message).encode("ascii") + b"\n", deadline)
        return _checked(self._receive(deadline, tick))

    def send(self, message: Json, timeout_s: float) -> None:
        """Send a message whose reply `receive` fetches, so that several workers start at once."""
        self._send(json.dumps(message).encode("ascii") + b"\n", time.monotonic() + timeout_s)

    def receive(self, timeout_s: float) -> Json:
        """Return the next reply; raises as `request` does."""
        return _checked(self._receive(time.monotonic() + timeout_s, None))

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._in, selectors.EVENT_WRITE, deadline)
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._died() from None

    def _receive(self, deadline: float, tick: Callable[[], None] | None) -> bytes:
        while b"\n" not in self._buffer:
            self._wait(self._out, selectors.EVENT_READ, deadline, tick)
            try:
                data = os.read(self._out, _READ)
            except BlockingIOError:
                continue
            if not data:
                raise self._died()
            self._buffer += data
            if len(self._buffer) > _LINE_LIMIT:
                self.kill()
                raise WorkerDiedError("a reply without end was cut off")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    def _wait(
        self, handle: int, event: int, deadline: float, tick: Callable[[], None] | None = None
    ) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(handle, event)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(min(left, _TICK_S)):
                    return
                if tick is not None:
                    tick()
        self.kill()
        raise WorkerTimeoutError("no reply by the deadline")

    def _died(self) -> WorkerDiedError:
        self.kill(grace_s=0.5)
        code = self._child.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        said = self.last_words()
        return WorkerDiedError(f"{how}: {said}" if said else how)

    def last_words(self) -> str:
        """Return the last line on standard error, without machine paths or names."""
        with contextlib.suppress(OSError), self.log.open("rb") as handle:
            handle.seek(max(0, self.log.stat().st_size - _TAIL))
            lines = handle.read().decode("utf-8", "replace").split("\n")
            return next((scrub(line.strip())[:300] for line in lines[::-1] if line.strip()), "")
        return ""

    def finish(self, within_s: float) -> None:
        """Ask the worker to end and wait unsignalled, as a profiler above it has to write yet."""
        with contextlib.suppress(WorkerDiedError, WorkerReplyError):
            self.request({"op": "close"}, within_s)
        self._await_exit(within_s)

    def close(self, grace_s: float = 2.0) -> int:
        """Ask the worker to end, then make sure of it; returns as `kill` does."""
        if not self._ended:
            with contextlib.suppress(WorkerDiedError, WorkerReplyError):
                self.request({"op": "close"}, grace_s)
        return self.kill(grace_s)

    def kill(self, grace_s: float = 0.0) -> int:
        """End the worker and everything that it started: SIGTERM, `grace_s`, then SIGKILL.

        Returns how many ghosts had to be ended: processes that had left the worker's group.
        """
        if self._ended:
            return 0
        known = [*self._family(), *_descendants(self.pid)]
        self.ports |= ports.listening(known)
        if grace_s > 0:
            self._signal(signal.SIGTERM)
            self._await_exit(grace_s)
        self._signal(signal.SIGKILL)
        self._child.wait()
        ghosts = {*self._family(), *filter(family.alive, known)}
        family.end([*ghosts])
        cgroup.end(self._group)
        scratch.remove(self._scratch)
        for stream in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self._ended = True
        return len(ghosts)

    def memory_bytes(self) -> int | None:
        """Return the resident memory of the worker and its descendants; None once it has ended."""
        try:
            own = psutil.Process(self.pid)
            return sum(p.memory_info().rss for p in [own, *own.children(recursive=True)])
        except psutil.Error:
            return None

    def _family(self) -> list[psutil.Process]:
        found = {process.pid: process for process in family.marked(family.WORKER, self._mark)}
        for pid in cgroup.members(self._group):
            with contextlib.suppress(psutil.Error):
                found.setdefault(pid, psutil.Process(pid))
        return [process for process in found.values() if family.alive(process)]

    def _await_exit(self, grace_s: float) -> None:
        """Wait without reaping: while the zombie stands, nobody else can get its group's number."""
        deadline = time.monotonic() + grace_s
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self.pid, flags) is None and time.monotonic() < deadline:
            time.sleep(0.005)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _start(
    command: list[str], log: BinaryIO, environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        bufsize=0,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
    )


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _checked(line: bytes) -> Json:
    try:
        reply = parse(line)
    except ValueError as error:
        raise WorkerReplyError("bug", f"reply is not strict JSON: {error}") from None
    if not isinstance(reply, dict):
        raise WorkerReplyError("bug", "reply is not a JSON object")
    if reply.get("ok") is not True:
        raise WorkerReplyError(str(reply.get("kind", "bug")), scrub(str(reply.get("error")))[:300])
    return reply
