"""`launch: offline`: the worker's end of the pipe to the process that holds the engine."""

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from dataclasses import asdict
from typing import Any

from harness.backends.sglang.arguments import Start
from harness.backends.sglang.child import Child
from harness.backends.sglang.engine import (
    Batch,
    EngineError,
    EngineHungError,
    EngineRefusedError,
    Outcome,
    from_json,
)

HOST = "harness.backends.sglang.offline_host"
GRACE_S = 5.0
"""Beyond a batch's deadline, which the engine's process keeps itself."""


class OfflineEngine:
    """A `sglang.Engine` in a process of its own."""

    def __init__(self, start: Start, timeout_s: float) -> None:
        """Start it and wait until it is ready.

        Raises:
            EngineError: it did not start in time, with the reason.
        """
        self._buffer = bytearray()
        command = [sys.executable, "-P", "-m", HOST]
        self._child = Child(command, start.environment, wire=True)
        self._send({"arguments": start.arguments})
        self.info: dict[str, Any] = self._receive(timeout_s)["info"]
        self._child.pids()

    def generate(self, batch: Batch) -> Outcome:
        """Run a batch. Raises as `Engine.generate` does."""
        reply = self._ask({"op": "generate", "batch": asdict(batch)}, batch.timeout_s + GRACE_S)
        return from_json(reply)

    def flush(self) -> None:
        """Empty the prefix cache."""
        if not self._ask({"op": "flush"}, 30.0)["flushed"]:
            raise EngineRefusedError("the engine did not flush its cache")

    @property
    def alive(self) -> bool:
        """Whether the engine's process runs."""
        return self._child.alive

    def last_words(self) -> str:
        """Return how it ended."""
        return self._child.last_words()

    def stop(self) -> None:
        """End it at once: nothing of it is worth keeping."""
        self._child.stop()

    def _ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        self._send(message)
        reply = self._receive(timeout_s)
        if "refused" in reply:
            raise EngineRefusedError(reply["refused"])
        return reply

    def _send(self, message: dict[str, Any]) -> None:
        assert self._child.process.stdin is not None
        try:
            self._child.process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
            self._child.process.stdin.flush()
        except (OSError, ValueError):
            raise self._died() from None

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        assert self._child.process.stdout is not None
        handle, until = self._child.process.stdout.fileno(), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self._child.stop()
                    raise EngineHungError(f"no answer within {timeout_s:g} s")
                data = os.read(handle, 1 << 16)
                if not data:
                    raise self._died()
                self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        found: dict[str, Any] = json.loads(line)
        return found

    def _died(self) -> EngineError:
        self._child.await_exit()
        self._child.stop()
        return EngineError(self._child.last_words(), memory=self._child.out_of_memory())
