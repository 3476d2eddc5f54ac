"""The vice of real engines: a child that outlives its parent, its group and a polite request."""

from __future__ import annotations

import os
import signal
import socket
import time

_LIFETIME_S = 600.0
"""A ghost that nobody ends goes by itself, in case a test of ours fails to end it."""


def leave_ghost(port: int) -> None:
    """Fork twice into a new session; the grandchild ignores SIGTERM and listens on a local port.

    Returns once the port is taken.
    """
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _haunt(port, told)
        os._exit(0)
    os.close(told)
    os.wait()
    os.read(ready, 1)
    os.close(ready)


def _haunt(port: int, told: int) -> None:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            os.write(told, b"x")
            # Every other descriptor goes, the worker's wire first of all.
            os.closerange(3, listener.fileno())
            os.closerange(listener.fileno() + 1, 256)
            time.sleep(_LIFETIME_S)
    finally:
        os._exit(0)
