"""A worker process: `python -m harness.run.worker BACKEND` speaks the wire on its streams."""

from __future__ import annotations

import os
import sys

from harness.backends.serve import serve
from harness.backends.table import make
from harness.store.errors import Exit, UsageError


def main(arguments: list[str]) -> int:
    """Serve the named backend; returns the exit status."""
    try:
        (name,) = arguments
        backend = make(name)
    except ValueError:
        return _fail("usage: python -m harness.run.worker BACKEND")
    except UsageError as error:
        return _fail(str(error))
    try:
        return serve(backend)
    except SystemExit as end:
        # An engine is beyond help. The wire must close with the process and not before it, so that
        # the runner sees the exit status and these last words.
        print(end, file=sys.stderr, flush=True)  # noqa: T201 - the wire is about to close
        os._exit(1)


def _fail(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201 - there is no wire yet
    return int(Exit.USAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
