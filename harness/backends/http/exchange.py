"""Send a batch at once and collect its answers under one deadline, however the server behaves."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.backends.base import Status
from harness.backends.http.answers import Answer
from harness.backends.http.client import Connection, Endpoint, EndpointError
from harness.backends.http.dialects import Call, Dialect, check_error
from harness.backends.http.events import events


def _nothing(_: Sequence[Answer]) -> None:
    pass


_PAUSE_S = 0.2
_STATUS: dict[str, Status] = {"late": "timeout", "oom": "oom"}


@dataclass
class Exchange:
    """One batch on its way."""

    endpoint: Endpoint
    dialect: Dialect
    timeout_s: float
    """For the whole batch, from the moment that it is sent."""
    retries: int = 0
    watch: Callable[[Sequence[Answer]], None] = _nothing
    """Called after every event with the answers of its call."""
    start_ns: int = 0
    end_ns: int = 0
    until: float = 0.0
    _lines: list[_Line] = field(default_factory=list)

    def run(self, calls: Sequence[Call], count: int) -> list[Answer]:
        """Return one answer per prompt; failures are outcomes of the items.

        Connections are opened before the clock starts, and every call has a thread of its own.

        Raises:
            EndpointError: no connection at all could be opened.
        """
        answers = [Answer() for _ in range(count)]
        self.until = time.monotonic() + self.timeout_s
        self._lines = [
            _Line(self, call, [answers[place] for place in call.places]) for call in calls
        ]
        for line in self._lines:
            line.open(self.until)
        threads = [threading.Thread(target=line.run, daemon=True) for line in self._lines]
        self.start_ns = time.monotonic_ns()
        self.until = time.monotonic() + self.timeout_s
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.until - time.monotonic()))
        self._cut(answers)
        for thread in threads:
            thread.join(1.0)
        self.end_ns = max(self.start_ns, *(answer.ended_ns or 0 for answer in answers))
        return answers

    @property
    def late(self) -> str:
        """What is said of an answer that missed the deadline."""
        return f"no answer within {self.timeout_s:g} s"

    def _cut(self, answers: Sequence[Answer]) -> None:
        now = time.monotonic_ns()
        for answer in answers:
            answer.fail("timeout", self.late, now)
        for line in self._lines:
            line.stop()


class _Line:
    """One call, its connection, and its tries."""

    def __init__(self, exchange: Exchange, call: Call, answers: list[Answer]) -> None:
        self._exchange = exchange
        self._call = call
        self._answers = answers
        self._connection: Connection | None = None

    def open(self, until: float) -> None:
        self._connection = Connection(self._exchange.endpoint, until)

    def run(self) -> None:
        while True:
            try:
                self._once()
            except EndpointError as error:
                if self._again(error):
                    continue
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - a malformed answer is an outcome, too
                self._fail(EndpointError("protocol", f"malformed answer: {type(error).__name__}"))
            finally:
                self._close()
            return

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def _once(self) -> None:
        until = self._exchange.until
        if self._connection is None:
            self.open(until)
        connection = self._connection
        assert connection is not None
        response = connection.send("POST", self._call.path, self._call.body, until)
        if self._call.body.get("stream"):
            for event in events(connection.lines(response, until)):
                self._take(event)
        else:
            self._whole(connection.whole(response, until))
        now = time.monotonic_ns()
        for answer in self._answers:
            if answer.finish is None:
                answer.fail("error", "the stream ended before the answer did", now)
            answer.end(now)

    def _take(self, event: dict[str, object]) -> None:
        now = time.monotonic_ns()
        if all(answer.done for answer in self._answers):
            return
        self._exchange.dialect.take(event, self._answers, now)
        self._exchange.watch(self._answers)
        for answer in self._answers:
            if answer.finish is not None and "meta_info" in event:
                answer.end(now)

    def _whole(self, data: bytes) -> None:
        value, now = json.loads(data), time.monotonic_ns()
        for place, event in enumerate(value if isinstance(value, list) else [value]):
            check_error(event)
            self._exchange.dialect.take({"index": place, **event}, self._answers, now)
        for answer in self._answers:
            answer.stamps.clear()

    def _again(self, error: EndpointError) -> bool:
        pending = [answer for answer in self._answers if not answer.done]
        spent = max((answer.retries for answer in self._answers), default=0)
        started = any(answer.started for answer in self._answers)
        left = self._exchange.until - time.monotonic()
        if not error.retry or started or not pending or spent >= self._exchange.retries:
            return False
        if left <= _PAUSE_S:
            return False
        for answer in pending:
            answer.retries += 1
        time.sleep(_PAUSE_S)
        return True

    def _fail(self, error: EndpointError) -> None:
        now = time.monotonic_ns()
        for answer in self._answers:
            said = self._exchange.late if error.kind == "late" else str(error)
            answer.fail(_STATUS.get(error.kind, "error"), said, now)

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None
