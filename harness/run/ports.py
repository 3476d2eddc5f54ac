"""Ports that a worker's family listens on, and whether they are free again once it has ended."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable

import psutil


def listening(processes: Iterable[psutil.Process]) -> set[int]:
    """Return the TCP ports that some processes listen on."""
    found = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found |= {
                connection.laddr.port
                for connection in process.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    return found


def taken(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def holder(port: int) -> str:
    """Return who holds a port, in words for a message."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == port:
                if connection.pid is None:
                    break
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return "a process that this user can't see"
