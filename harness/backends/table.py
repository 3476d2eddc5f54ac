"""The engines, by name: how a worker of each is started, and what it serves."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, cast

from harness.backends import process
from harness.backends.base import Backend
from harness.store.errors import UsageError

MODULES = {
    "fake": "harness.backends.fake",
    "looped": "harness.backends.looped",
    "http": "harness.backends.http.backend",
    "sglang": "harness.backends.sglang.worker",
}
"""Engines that `python -m harness.run.worker NAME` serves; each module has `make() -> Backend`."""

NAMES = (*MODULES, "process")


def command(backend: str, options: Mapping[str, Any], python: str = sys.executable) -> list[str]:
    """Return the command line that starts a worker of `backend` on an interpreter.

    Raises:
        UsageError: an unknown name, or options that the backend refuses.
    """
    if backend == "process":
        return process.command(options, python)
    if backend in MODULES:
        return [python, "-P", "-m", "harness.run.worker", backend]
    raise UsageError(f"backend: {backend!r} is not known; backends are {', '.join(NAMES)}")


def make(backend: str) -> Backend:
    """Return the engine that a worker serves.

    Raises:
        UsageError: an unknown name.
    """
    if backend not in MODULES:
        raise UsageError(f"backend: {backend!r} is not served; served are {', '.join(MODULES)}")
    return cast("Backend", importlib.import_module(MODULES[backend]).make())
