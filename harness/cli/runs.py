"""RUN on the command line: a plan (its registered or newest run), `plan@n`, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.store.errors import IncompleteError

if TYPE_CHECKING:
    from harness.store.paths import Project, RunPaths


def find_run(project: Project, name: str) -> RunPaths:
    """Return the folder of a run.

    Raises:
        IncompleteError: there is none.
    """
    from harness.run.folder import run_folders
    from harness.store.paths import RunPaths

    folder = RunPaths(Path(name))
    if folder.manifest.is_file():
        return folder
    plan, _, number = name.removeprefix("conf=").partition("@")
    runs = run_folders(project, plan)
    if number:
        wanted = f"{int(number):04d}-" if number.isdigit() else number
        runs = [run for run in runs if run.root.name.startswith(wanted)]
    elif registered := _registered(project, plan):
        runs = [run for run in runs if run.root.name == registered]
    if not runs:
        raise IncompleteError(f"{name}: no such run; see `harness list`, or name its folder")
    return runs[-1]


def _registered(project: Project, plan: str) -> str | None:
    from harness.ledger.chain import Chain
    from harness.ledger.records import history
    from harness.prereg.verify import studies

    for study in studies(project):
        start = history(Chain(project.ledger(study))).registered(plan)
        if start is not None:
            return start[1].run_id
    return None


def last_run_s(project: Project, plan: str) -> float | None:
    """Return the seconds between a plan's newest finished run's start and its seal, or None."""
    from datetime import datetime

    from harness.run.folder import run_folders
    from harness.store.files import read_json

    sealed = [run for run in run_folders(project, plan) if run.seal.exists()]
    if not sealed:
        return None
    began = str(read_json(sealed[-1].manifest)["started_utc"])
    ended = str(read_json(sealed[-1].seal)["sealed_utc"])
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
