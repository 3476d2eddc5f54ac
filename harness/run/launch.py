"""How a worker of this machine is started: its command line, environment and folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import harness
from harness.backends.table import command
from harness.plan.schema import Plan
from harness.run.arm_environment import ArmEnvironment, environment_of
from harness.run.context import WorkerFactory
from harness.run.process import WorkerProcess
from harness.store.paths import Project

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def local_workers(
    plan: Plan,
    project: Project,
    *,
    locked: bool = False,
    show: Callable[[str], None] | None = None,
) -> WorkerFactory:
    """Return a factory of workers in the project's folder; `show` gets each command line.

    Patch files of a `locked` plan run from the copies that were made at its freeze.
    """
    own = {name: environment_of(project, plan, name, locked=locked) for name in plan.arms}
    commands = command_lines(plan, project, locked=locked)

    def start(arm: str, log: Path, under: Sequence[str] = ()) -> WorkerProcess:
        foreign = plan.arms[arm].backend == "process"
        environment = worker_environment(plan.schedule.threads, foreign=foreign)
        if (isolated := own[arm]) is not None:
            environment |= isolated_environment(isolated)
        words = [*under, *commands[arm]]
        if show is not None:
            show(" ".join(words))
        return WorkerProcess(words, log, environment=environment, folder=project.root)

    return start


def command_lines(plan: Plan, project: Project, *, locked: bool) -> dict[str, list[str]]:
    """Return the command line of every arm's workers."""
    return {
        name: _command(
            project, plan, name, environment_of(project, plan, name, locked=locked), locked
        )
        for name in plan.arms
    }


def _command(
    project: Project, plan: Plan, name: str, own: ArmEnvironment | None, locked: bool
) -> list[str]:
    arm = plan.arms[name]
    words = command(arm.backend, arm.options, str(own.python) if own else sys.executable)
    if not locked:
        return words
    copies = project.prereg(plan.plan) / "patch"
    return [str(copies / word) if word in arm.patch else word for word in words]


def isolated_environment(own: ArmEnvironment) -> dict[str, str]:
    """Return what keeps a worker inside its own environment: of ours it sees the package alone."""
    path = f"{own.python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    venv = str(own.python.parent.parent)
    return {"PYTHONPATH": str(own.wire), "VIRTUAL_ENV": venv, "PATH": path, "PYTHONNOUSERSITE": "1"}


def worker_environment(threads: int, *, foreign: bool) -> dict[str, str]:
    """Return this process's environment with the plan's thread count.

    A worker of ours finds the harness that started it, wherever the project's folder is.
    """
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
    environment["PYTHONHASHSEED"] = "0"
    if not foreign:
        own = str(Path(harness.__file__).parent.parent)
        paths = [own, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
