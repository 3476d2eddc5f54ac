"""What a verification has to say: one line each, with the exit code that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.store.errors import Exit, HarnessError, worst


@dataclass(frozen=True)
class Finding:
    """One observation; code `DONE` marks a remark that fails nothing."""

    code: Exit
    path: str
    """Project-relative name of the file or folder."""
    message: str

    @property
    def remark(self) -> bool:
        """Whether it is for information only."""
        return self.code == Exit.DONE


def changed(path: str, message: str) -> Finding:
    """Return a finding that something is not what was frozen, sealed or recorded."""
    return Finding(Exit.CHANGED, path, f"{path}: {message}")


def incomplete(path: str, message: str) -> Finding:
    """Return a finding that something is missing or unfinished."""
    return Finding(Exit.INCOMPLETE, path, f"{path}: {message}")


def deviated(path: str, message: str) -> Finding:
    """Return a finding that a plan or a run is valid, but not as it was frozen."""
    return Finding(Exit.DEVIATED, path, f"{path}: {message}")


def remark(path: str, message: str) -> Finding:
    """Return a finding for information."""
    return Finding(Exit.DONE, path, f"{path}: {message}")


def from_error(path: str, error: HarnessError) -> Finding:
    """Return an error as a finding; what only a hand can have done counts as a change."""
    code = error.exit_code if error.exit_code in (Exit.INCOMPLETE, Exit.STORAGE) else Exit.CHANGED
    text = str(error)
    return Finding(code, path, text if path in text else f"{path}: {text}")


def guarded(path: str, check: Callable[[], object]) -> list[Finding]:
    """Run a check and return its error as a finding."""
    try:
        check()
    except HarnessError as error:
        return [from_error(path, error)]
    return []


def exit_code(findings: Iterable[Finding]) -> Exit:
    """Return the code that a list of findings ends with."""
    return worst([finding.code for finding in findings])
