"""`harness status`: how runs stand, from their journals; nothing is touched."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from harness.cli.output import console, print_json
from harness.cli.parsing import parser

if TYPE_CHECKING:
    from harness.run.status import RunStatus
    from harness.store.paths import Project


def main(argv: Sequence[str]) -> int:
    """Print one line per run; `--follow` repeats it until nothing runs."""
    made = parser("status", "progress of a run, from its journal", json=True)
    made.add_argument("run", nargs="?", metavar="RUN", help="default: every unfinished run")
    made.add_argument("--follow", action="store_true", help="until it ends")
    args = made.parse_args(argv)
    from harness.store.paths import find_project

    project = find_project()
    while True:
        found = _found(project, args.run)
        if args.json:
            print_json([asdict(one) for one in found])
        else:
            _print(found)
        if not args.follow or not any(one.word == "running" for one in found):
            return 0
        time.sleep(2)


def _found(project: Project, name: str | None) -> list[RunStatus]:
    from harness.cli.runs import find_run
    from harness.run.folder import run_folders
    from harness.run.status import status

    if name is not None:
        return [status(find_run(project, name))]
    runs = project.root / "runs"
    plans = sorted(path.name for path in runs.iterdir()) if runs.is_dir() else []
    return [status(run) for plan in plans for run in run_folders(project, plan)]


def _print(found: list[RunStatus]) -> None:
    if not found:
        console().print("no runs")
    for one in found:
        left = f", {one.eta_s:.0f} s to go" if one.eta_s is not None else ""
        trouble = "".join(
            f", {count} {word}"
            for count, word in (
                (one.interrupted, "interrupted"),
                (one.void, "void"),
                (one.deaths, "workers died"),
            )
            if count
        )
        console().print(
            f"{one.run_id}  {one.role}  {one.word}  {one.done}/{one.total} visits, "
            f"{one.blocks_finished}/{one.blocks_planned} blocks{trouble}{left}"
        )
