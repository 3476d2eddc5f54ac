"""A temporary folder per worker, for what its engine leaves about; it goes when the worker does."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

VARIABLE = "HARNESS_SCRATCH"


def folder_of(run: str, worker: str) -> Path:
    """Return where a worker's files may lie; it is short, since sockets are made below it."""
    return Path(tempfile.gettempdir()) / f"harness-{run}-{worker}"


def remove(folder: Path) -> None:
    """Remove a worker's files, if it made any."""
    shutil.rmtree(folder, ignore_errors=True)


def sweep(run: str) -> None:
    """Remove what the workers of a run's earlier, dead runner left."""
    for folder in Path(tempfile.gettempdir()).glob(f"harness-{run}-*"):
        remove(folder)
