"""The one clock: UTC stamps for people, a monotonic counter for durations."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """System clock; tests pass a `Clock` with a fixed offset instead."""

    offset_s: float = 0.0

    def utc(self) -> str:
        """Return the time as ISO 8601 in UTC with microseconds."""
        stamp = datetime.fromtimestamp(time.time() + self.offset_s, UTC)
        return stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that never goes back."""
        return time.monotonic_ns()


CLOCK = Clock()
