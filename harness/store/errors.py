"""What can go wrong for a user, each with its exit code; one line each, never a traceback."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line (where several apply: 3 > 4 > 9 > 6 > 7 > 11)."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CHANGED = 3
    INCOMPLETE = 4
    REFUSED = 5
    DEVIATED = 6
    UNANCHORED = 7
    NOT_READY = 8
    VOID = 9
    STORAGE = 10
    PREDICTION_FAILED = 11
    INTERRUPTED = 130


PRECEDENCE = (
    Exit.CHANGED,
    Exit.INCOMPLETE,
    Exit.VOID,
    Exit.DEVIATED,
    Exit.UNANCHORED,
    Exit.PREDICTION_FAILED,
)


class HarnessError(Exception):
    """Base of everything a user can cause; `exit_code` reaches the shell."""

    exit_code: Exit = Exit.BUG


class UsageError(HarnessError):
    """The command line, a plan or a configuration file is wrong; nothing was run."""

    exit_code = Exit.USAGE


class ChangedError(HarnessError):
    """Something differs from what was frozen or sealed."""

    exit_code = Exit.CHANGED


class IncompleteError(HarnessError):
    """Something that should be there is missing or cut short."""

    exit_code = Exit.INCOMPLETE


class RefusedError(HarnessError):
    """The plan forbids it: already frozen, spent, or in conflict."""

    exit_code = Exit.REFUSED


class NotReadyError(HarnessError):
    """The environment lacks something; the message says what to install or start."""

    exit_code = Exit.NOT_READY


class VoidError(HarnessError):
    """The run broke a frozen precondition; its predictions are void."""

    exit_code = Exit.VOID


class StorageError(HarnessError):
    """The disk refused a write; what was already synced stays."""

    exit_code = Exit.STORAGE


class StoppedError(HarnessError):
    """Somebody asked the run to stop; it can be resumed."""

    exit_code = Exit.INTERRUPTED


def worst(codes: list[Exit]) -> Exit:
    """Return the code that wins by the contract's precedence; `DONE` for an empty list."""
    for code in PRECEDENCE:
        if code in codes:
            return code
    return max(codes, default=Exit.DONE)
