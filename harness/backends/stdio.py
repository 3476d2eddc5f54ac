"""A worker's file descriptors: the wire is taken away from stray prints, and no orphan survives."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1


def take_wire() -> tuple[BinaryIO, BinaryIO]:
    """Return (requests, replies); from now on descriptor 1 is standard error and 0 is empty.

    A library that prints, in Python or in C, can then not break the wire.
    """
    sys.stdout.flush()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    return requests, replies


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends; elsewhere, the closed pipe ends it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
