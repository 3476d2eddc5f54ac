"""What a registered run needs around it: Python, packages, devices; and the commit at freeze."""

from __future__ import annotations

import functools
import platform
import re
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from harness.prereg.lock import Environment, GitState

DISTRIBUTION = "ripe-harness"
_ROOTS = ("numpy", "scipy", "torch", "safetensors", "pydantic", "rfc8785", "hydra-core")
"""What counts where the project runs from its source tree, without being installed."""
_OWN_RECORDS = ("preregistrations", "ledgers", "runs")


@functools.cache
def environment() -> Environment:
    """Return the versions of Python and of every installed package that this one builds on."""
    waiting = _requirements(DISTRIBUTION) or list(_ROOTS)
    packages: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        version = _version(name)
        if version is not None and name not in packages:
            packages[name] = version
            waiting += _requirements(name)
    return Environment(python=platform.python_version(), packages=packages)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements(name: str) -> list[str]:
    """Return the names that a distribution requires, without extras."""
    try:
        listed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    plain = (line for line in listed if not re.search(r";.*\bextra\b", line))
    matches = (re.match(r"[A-Za-z0-9._-]+", line) for line in plain)
    return [re.sub(r"[-_.]+", "-", match.group()).lower() for match in matches if match]


def environment_differences(locked: Environment, found: Environment) -> list[str]:
    """Return one phrase per version that differs."""
    names = sorted(locked.packages.keys() | found.packages.keys())
    pairs = [("python", locked.python, found.python)]
    pairs += [(name, locked.packages.get(name), found.packages.get(name)) for name in names]  # type: ignore[misc]
    return [
        f"{name}: found {now or 'none'}, expected {then or 'none'}"
        for name, then, now in pairs
        if then != now
    ]


def device_class(device: str) -> str:
    """Return the model and count of the devices that a plan's device names, without host names."""
    if device == "cuda":
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return f"cuda: {count} × {torch.cuda.get_device_name(0)}" if count else "cuda: none"
    return f"cpu: {_cpu_model()}"


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def git_state(root: Path, announce: Callable[[str], None]) -> GitState | None:
    """Return the commit and whether the work tree differs from it; None without git or commits.

    The project's own records are left aside: freezing writes them.
    """
    commit = _git(root, announce, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    aside = [f":(exclude){name}" for name in _OWN_RECORDS]
    status = _git(root, announce, "status", "--porcelain", "--", ".", *aside)
    return GitState(commit=commit.strip(), dirty=status is None or bool(status.strip()))


def _git(root: Path, announce: Callable[[str], None], *words: str) -> str | None:
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(root), *words]
    announce(f"git {' '.join(words)}")
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout if result.returncode == 0 else None
