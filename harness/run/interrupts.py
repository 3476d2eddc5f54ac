"""SIGINT and SIGTERM become one exception, and never in the middle of a write or a clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from harness.store.errors import StoppedError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Within this context a stop request raises `StoppedError`, or waits while `held`."""

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self, *, final: bool = False) -> Iterator[None]:
        """Postpone stop requests; after the `final` one nothing is left to stop."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._pending and not self._depth and not final:
            self._stop()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._pending = True
        if not self._depth:
            self._stop()

    def _stop(self) -> None:
        self._pending = False
        raise StoppedError("stopped; run the same command again to resume")
