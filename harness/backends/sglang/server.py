"""`launch: server`: `sglang.launch_server` on the loopback, asked over its native endpoint."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from harness.backends.http.client import Endpoint, EndpointError
from harness.backends.http.dialects import Ask, Native
from harness.backends.http.exchange import Exchange
from harness.backends.process import GUARD
from harness.backends.sglang.arguments import Start
from harness.backends.sglang.child import Child
from harness.backends.sglang.cputime import Marks
from harness.backends.sglang.engine import (
    Batch,
    EngineError,
    EngineHungError,
    EngineRefusedError,
    Outcome,
    plain_info,
)

HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the range from which systems hand out ports by themselves."""
_POLL_S = 0.2


class ServerEngine:
    """A server process, and one request per batch."""

    def __init__(self, start: Start, timeout_s: float, port: int | None) -> None:
        """Start it and wait until it generates; a health page proves nothing.

        Raises:
            EngineError: it did not start in time, or its port is taken.
        """
        self._port = free_port() if port is None else port
        if taken(self._port):
            raise EngineError(f"options.port: {self._port} is taken by another program")
        words = flags({**start.arguments, "host": HOST, "port": self._port})
        command = [sys.executable, "-P", "-m", "sglang.launch_server", *words]
        guarded = [sys.executable, "-I", "-S", str(GUARD), *command]
        self._child = Child(guarded, start.environment, wire=False)
        self._endpoint = Endpoint(f"http://{HOST}:{self._port}")
        until = time.monotonic() + timeout_s
        with self._ending():
            self._await_ready(until)
            self._prove(until)
        self._pids = self._child.pids()

    def generate(self, batch: Batch) -> Outcome:
        """Run a batch. Raises as `Engine.generate` does."""
        marks = Marks(self._pids)
        exchange = Exchange(self._endpoint, Native(), batch.timeout_s, watch=marks.watch)
        ask = Ask(batch.max_tokens, "", stream=True, want="ids", log_probs=batch.log_probs)
        calls = Native().request({"input_ids": batch.ids}, batch.sampling(), ask)
        try:
            answers = exchange.run(calls, len(batch.ids))
        except EndpointError as error:
            raise self._broken(error) from error
        failed = [answer.error for answer in answers if answer.status == "error"]
        if failed and not self._lives():
            raise self._died()
        if len(failed) == len(answers):
            raise EngineRefusedError(failed[0] or "the server refused")
        return Outcome(answers, exchange.start_ns, exchange.end_ns, marks.end())

    def flush(self) -> None:
        """Empty the prefix cache."""
        try:
            self._endpoint.ask("POST", "/flush_cache", 30.0)
        except EndpointError as error:
            raise self._broken(error) from error

    @property
    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._child.alive

    def last_words(self) -> str:
        """Return how it ended."""
        return self._child.last_words()

    def stop(self) -> None:
        """End it at once: asked politely, it would take seconds to drain nothing."""
        self._child.stop()

    def _await_ready(self, until: float) -> None:
        while time.monotonic() < until:
            if not self._child.alive:
                raise self._died()
            try:
                self._endpoint.ask("GET", "/health", 5.0)
                self.info = plain_info(self._endpoint.ask("GET", "/server_info", 10.0))
            except EndpointError:
                time.sleep(_POLL_S)
            else:
                return
        raise EngineHungError("the server did not come up in time")

    def _prove(self, until: float) -> None:
        patience = max(1.0, until - time.monotonic())
        found = self.generate_once(patience)
        if found is not None:
            raise EngineHungError(f"the server answers /health but does not generate: {found}")

    def generate_once(self, timeout_s: float) -> str | None:
        """Generate one token; returns what went wrong."""
        self._pids = self._child.pids()
        outcome = self.generate(Batch([[1]], 1, [], timeout_s))
        return outcome.answers[0].error

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._child.stop()
            raise

    def _lives(self) -> bool:
        """Whether the server goes on; a dying one takes a moment to be gone."""
        until = time.monotonic() + 2.0
        while self._child.alive and time.monotonic() < until:
            if not taken(self._port):
                time.sleep(0.05)
                continue
            try:
                self._endpoint.ask("GET", "/health", 1.0)
            except EndpointError:
                time.sleep(0.05)
            else:
                return True
        return False

    def _broken(self, error: EndpointError) -> Exception:
        return EngineRefusedError(str(error)) if self._lives() else self._died()

    def _died(self) -> EngineError:
        self._child.await_exit()
        self._child.stop()
        return EngineError(self._child.last_words(), memory=self._child.out_of_memory())


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Return arguments as command-line words: true switches on, false leaves out."""
    words: list[str] = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        elif isinstance(value, dict):
            words += [flag, json.dumps(value)]
        elif value is not False:
            words += [flag, str(value)]
    return words


def taken(port: int) -> bool:
    """Whether somebody listens on a port of the loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def free_port() -> int:
    """Return a port that nobody holds. Raises EngineError when none is found."""
    draw = random.SystemRandom()
    for _ in range(200):
        port = draw.choice(_PORTS)
        if not taken(port):
            return port
    raise EngineError("no free port was found on the loopback")
