"""Start a foreign program so that it dies with the harness: `python guard.py PROGRAM [ARGUMENT…]`.

The request to be killed survives `exec`; this file runs by path, in an interpreter without site
packages, and therefore imports nothing of the harness.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """Become `command`; returns only when it cannot be started."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the arm's own program, no shell
    except OSError as error:
        print(f"{command[0]}: cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
