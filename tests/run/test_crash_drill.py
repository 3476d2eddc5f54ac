"""Two hundred kills at random moments, over runners, workers and ghosts."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from harness.run import cgroup, ports
from harness.run.family import RUN, marked, run_mark
from harness.run.folder import unfinished
from harness.store.canonical import Json
from harness.store.digests import sha256_file
from harness.store.framed import scan
from harness.store.paths import Project, RunPaths
from tests.run.bench import kinds, plan_of, two_arms
from tests.run.drill import Frames, check_finished, gone, run, runs, start

SLEEPY = {"real_sleep": True, "prefill_ms": 1.0, "ms_per_token": 0.5}
ARMS = two_arms(SLEEPY, ghost=True, **SLEEPY)
SCHEDULE = {"blocks": 50, "spare_blocks": 5, "block_items": 2, "launches_per_arm": 5}
SETTINGS: Json = {"arms": ARMS, "schedule": SCHEDULE}
PLAN = plan_of(ARMS, SCHEDULE)
"""50 blocks × 4 visits × 2 items = 400 scored trials."""


class Drill:
    """Kills until enough have fallen, through as many runs as that takes."""

    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self.folder, self.wanted = folder, kills
        self.random = random.Random(seed)
        self.fallen = {"runner": 0, "worker": 0, "ghost": 0}
        self.frames: dict[str, Frames] = {}
        self.listened: set[int] = set()

    @property
    def done(self) -> int:
        return sum(self.fallen.values())

    def go(self) -> None:
        while self.done < self.wanted:
            self.one_runner()
        while unfinished(Project(self.folder), PLAN) is not None:
            code, errors = run(self.folder, SETTINGS)
            assert code in (0, 8), errors
            if code == 0:
                self.seal(runs(self.folder)[-1])

    def one_runner(self) -> None:
        driver = start(self.folder, SETTINGS)
        assert driver.stdout is not None
        driver.stdout.readline()
        while driver.poll() is None and self.done < self.wanted:
            time.sleep(self.random.uniform(0.0, 0.4))
            kind = self.random.choice(("runner", "worker", "worker", "ghost"))
            if kind == "runner" and driver.poll() is None:
                self.look()
                driver.kill()
                self.fallen[kind] += driver.wait() == -signal.SIGKILL
            else:
                self.fallen[kind] += self.kill(kind, driver.pid)
        driver.wait()
        _, errors = driver.communicate()
        assert driver.returncode in (0, 8, -signal.SIGKILL), errors
        assert "Traceback" not in errors
        paths = runs(self.folder)[-1]
        self.frames.setdefault(paths.root.name, Frames()).take(paths)
        if driver.returncode == 0 and not paths.seal.exists():
            self.seal(paths)

    def look(self) -> None:
        """Note the ports that are in use, for the end."""
        for paths in runs(self.folder)[-1:]:
            self.listened |= ports.listening(marked(RUN, run_mark(paths.logs)))

    def kill(self, kind: str, runner: int) -> bool:
        paths = runs(self.folder)
        family = marked(RUN, run_mark(paths[-1].logs)) if paths else []
        children = {process.pid for process in self.children(runner)}
        chosen = [p for p in family if (p.pid in children) == (kind == "worker")]
        if not chosen:
            return False
        try:
            self.random.choice(chosen).kill()
        except psutil.Error:
            return False
        return True

    @staticmethod
    def children(runner: int) -> list[psutil.Process]:
        try:
            return psutil.Process(runner).children(recursive=True)
        except psutil.Error:
            return []

    def seal(self, paths: RunPaths) -> None:
        """Check a finished run and seal it: what had been synced at any kill stands in it."""
        sealed = check_finished(paths, PLAN)
        self.frames.get(paths.root.name, Frames()).check(paths)
        assert sealed["files"]["journal.log"]["sha256"] == sha256_file(paths.journal)
        records = scan(paths.journal).records
        keys = [tuple(t["key"][k] for k in ("item", "arm", "visit"))
                for t in kinds(records, "trial", phase="scored")]  # fmt: skip
        assert len(keys) == len(set(keys))


def drill(folder: Path, kills: int, seed: int) -> Drill:
    one = Drill(folder, kills, seed)
    one.go()
    for paths in runs(folder):
        mark = run_mark(paths.logs)
        assert gone(marked(RUN, mark))
        assert cgroup.left_by(mark) == []
        assert paths.seal.exists()
    assert not [port for port in one.listened if ports.taken(port)]
    return one


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_kills_lose_nothing_repeat_nothing_and_leave_nothing(tmp_path: Path) -> None:
    one = drill(tmp_path, 200, seed=5)
    print(one.fallen, f"{len(runs(tmp_path))} runs, {len(one.listened)} ports")
    assert one.done == 200
    assert min(one.fallen.values()) >= 10
