"""What a trial held in its cache, in bytes, by the engine's own count."""

from __future__ import annotations

from collections.abc import Callable

from harness.store.canonical import Json

TRIAL: dict[str, Callable[[Json], float]] = {"cache_bytes": lambda trial: int(trial["cache_bytes"])}
