"""Every file name of a project and of a run, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness

_PACKAGE = Path(harness.__file__).parent
PACKAGED_CONF = next(
    (folder for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if folder.is_dir()),
    _PACKAGE / "conf",
)
"""The plans that ship: inside an installed package, beside it in a source tree."""


@dataclass(frozen=True)
class RunPaths:
    """The folder of one run."""

    root: Path

    @property
    def manifest(self) -> Path:
        """What the run was started with."""
        return self.root / "run.json"

    @property
    def journal(self) -> Path:
        """The framed records; sealed as they are."""
        return self.root / "journal.log"

    @property
    def telemetry(self) -> Path:
        """What the machine did in every visit, one row per sample; sealed."""
        return self.root / "telemetry.parquet"

    @property
    def samples(self) -> Path:
        """The same while the run goes on, one JSON object per line."""
        return self.root / "telemetry.samples"

    def profile(self, arm: str) -> Path:
        """The unscored profile of an arm; sealed."""
        return self.root / f"profile.{arm}.json"

    @property
    def seal(self) -> Path:
        """The file table with its digest, written once."""
        return self.root / "seal.json"

    @property
    def logs(self) -> Path:
        """Standard error of every worker."""
        return self.root / "logs"

    @property
    def chain(self) -> Path:
        """A replication's own ledger records, until adopted."""
        return self.root / "chain"

    @property
    def lease(self) -> Path:
        """File lock of the process that drives the run."""
        return self.root / ".lease"

    @property
    def owner(self) -> Path:
        """Who holds the lease, for messages."""
        return self.root / ".owner"

    @property
    def analysis(self) -> Path:
        """Verdicts computed from the sealed records; can be rebuilt."""
        return self.root / "analysis.json"

    @property
    def report(self) -> Path:
        """The report's folder; can be rebuilt."""
        return self.root / "report"


@dataclass(frozen=True)
class Project:
    """A folder with `conf/`; everything else hangs below it."""

    root: Path

    @property
    def conf(self) -> Path:
        """Plans and their parts; the packaged ones where the project has none."""
        own = self.root / "conf"
        return own if own.is_dir() else PACKAGED_CONF

    def prereg(self, plan: str) -> Path:
        """Folder of a frozen plan."""
        return self.root / "preregistrations" / plan

    def lock(self, plan: str) -> Path:
        """The lock of a frozen plan."""
        return self.prereg(plan) / "lock.json"

    def ledger(self, study: str) -> Path:
        """Folder of a study's ledger, one file per record."""
        return self.root / "ledgers" / study

    def anchors(self, study: str) -> Path:
        """Folder of signed heads of a study's ledger."""
        return self.root / "anchors" / study

    def runs(self, plan: str) -> Path:
        """Folder of a plan's runs."""
        return self.root / "runs" / plan

    @property
    def environments(self) -> Path:
        """Environments of arms; built from frozen files, never tracked."""
        return self.root / "envs"

    @property
    def reports(self) -> Path:
        """Pages about whole studies; derived, never tracked."""
        return self.root / "reports"

    def run(self, plan: str, run_id: str) -> RunPaths:
        """One run's paths."""
        return RunPaths(self.runs(plan) / run_id)

    def all_runs(self) -> Iterator[RunPaths]:
        """Every run of every plan, finished or not."""
        return (RunPaths(path.parent) for path in self.root.glob("runs/*/*/run.json"))

    def relative(self, path: Path) -> str:
        """Return a project-relative name for messages and records."""
        try:
            return path.resolve().relative_to(self.root.resolve()).as_posix()
        except ValueError:
            return path.name


def find_project(start: Path | None = None) -> Project:
    """Return the nearest folder upwards from `start` with `conf/*.yaml`, or `start` itself."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any((folder / "conf").glob("*.yaml")):
            return Project(folder)
    return Project(here)
