"""Runners and workers die at any moment; nothing that was synced is lost, repeated or redrawn."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from harness.run.folder import unfinished
from harness.run.status import status
from harness.run.supervisor import execute
from harness.store.canonical import Json
from harness.store.paths import Project, RunPaths
from tests.run.bench import context_of, journal, kinds, plan_of, two_arms
from tests.run.drill import (
    Frames,
    alive,
    check_finished,
    gone,
    run,
    runs,
    start,
    wait_for_visits,
    workers,
)

SLEEPY = {"real_sleep": True, "prefill_ms": 1.0, "ms_per_token": 0.5}
ARMS = two_arms(pristine=SLEEPY, **SLEEPY)
LONG = {"blocks": 24, "spare_blocks": 4}
SHORT = {"blocks": 12, "spare_blocks": 4}


def kill_runners(folder: Path, kills: int, seed: int, schedule: Json = SHORT) -> None:
    moments, plan = random.Random(seed), plan_of(ARMS, schedule)
    settings = {"arms": ARMS, "schedule": schedule}
    frames, done = Frames(), 0
    paths: RunPaths | None = None
    while done < kills:
        driver = start(folder, settings)
        assert driver.stdout is not None
        driver.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.05 * schedule["blocks"]))
        family = workers(driver)
        driver.kill()
        killed = driver.wait() == -signal.SIGKILL
        driver.communicate()
        assert gone(family)
        done += killed
        paths = unfinished(Project(folder), plan)
        assert paths is not None
        frames.take(paths)
        if killed:
            assert status(paths).word in ("aborted", "finished")
        if status(paths).word == "finished":
            frames.check(paths)
            check_finished(paths, plan)
            frames = Frames()
    assert paths is not None
    if paths.seal.exists():
        return
    code, errors = run(folder, settings)
    assert (code, errors) == (0, "")
    frames.check(paths)
    check_finished(paths, plan)


def kill_workers(folder: Path, kills: int, seed: int, schedule: Json = SHORT) -> None:
    moments, plan = random.Random(seed), plan_of(ARMS, schedule)
    settings = {"arms": ARMS, "schedule": schedule}
    done = 0
    while done < kills:
        driver = start(folder, settings)
        assert driver.stdout is not None
        driver.stdout.readline()
        while driver.poll() is None:
            time.sleep(moments.uniform(0.0, 0.02 * schedule["blocks"]))
            family = workers(driver)
            if family and done < kills:
                moments.choice(family).kill()
                done += 1
        _, errors = driver.communicate()
        assert driver.returncode in (0, 8), errors
        assert "Traceback" not in errors
        if driver.returncode == 0:
            check_finished(runs(folder)[-1], plan)
    if driver.returncode != 0:
        assert run(folder, settings)[0] == 0
        check_finished(runs(folder)[-1], plan)


def test_killed_runners_resume_by_key(tmp_path: Path) -> None:
    kill_runners(tmp_path, kills=5, seed=1)


def test_killed_workers_are_replaced(tmp_path: Path) -> None:
    kill_workers(tmp_path, kills=5, seed=2)


@pytest.mark.slow
def test_runners_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    kill_runners(tmp_path, kills=20, seed=3, schedule=LONG)


@pytest.mark.slow
def test_workers_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    kill_workers(tmp_path, kills=20, seed=4, schedule=LONG)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    settings = {"arms": ARMS, "schedule": SHORT}
    plan = plan_of(ARMS, SHORT)
    driver = start(tmp_path, settings)
    wait_for_visits(tmp_path, plan, 6, driver)
    family = workers(driver)
    assert any(alive(process) for process in family)
    driver.send_signal(number)
    _, errors = driver.communicate(timeout=20)
    assert driver.returncode == 130
    assert errors == "StoppedError: stopped; run the same command again to resume\n"
    assert gone(family, within_s=0.5)
    paths = unfinished(Project(tmp_path), plan)
    assert paths is not None
    assert status(paths).word == "aborted"
    execute(context_of(Project(tmp_path), plan, paths))
    check_finished(paths, plan)
    assert len(kinds(journal(paths), "run", event="resumed")) == 1


def test_a_second_runner_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    settings = {"arms": ARMS, "schedule": LONG}
    first = start(tmp_path, settings)
    wait_for_visits(tmp_path, plan_of(ARMS, LONG), 1, first)
    paths = unfinished(Project(tmp_path), plan_of(ARMS, LONG))
    assert paths is not None
    assert status(paths).word == "running"
    code, errors = run(tmp_path, settings)
    assert code == 5
    assert f"already driven by process {first.pid} since 2" in errors
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=20)


def test_a_full_disk_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    settings = {"arms": two_arms(), "file_bytes": 40_000}
    code, errors = run(tmp_path, settings)
    assert code == 10
    assert errors.startswith("StorageError: ")
    assert "journal.log: cannot be written: File too large" in errors
    plan = plan_of(two_arms())
    paths = unfinished(Project(tmp_path), plan)
    assert paths is not None
    before = paths.journal.read_bytes()
    assert before.endswith(b"\n")
    assert run(tmp_path, {"arms": two_arms()})[0] == 0
    assert paths.journal.read_bytes().startswith(before)
    check_finished(paths, plan)


def test_a_torn_tail_is_set_aside_and_sealed(tmp_path: Path) -> None:
    plan = plan_of()
    settings = {"arms": two_arms()}
    assert run(tmp_path, settings)[0] == 0
    whole = runs(tmp_path)[0].journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    last_visit = max(n for n, line in enumerate(lines) if json.loads(line[26:])["kind"] == "visit")
    cut = b"".join(lines[:last_visit]) + lines[last_visit][:20]
    paths = runs(tmp_path)[0]
    paths.journal.write_bytes(cut)
    execute(context_of(Project(tmp_path), plan, paths))
    kept = b"".join(lines[: last_visit - 2])
    assert paths.journal.read_bytes().startswith(kept)
    torn = paths.root / "journal.log.torn.1"
    assert kept + torn.read_bytes() == cut
    assert kinds(journal(paths), "run", event="resumed")[0]["torn_bytes"] == len(cut) - len(kept)
    assert "journal.log.torn.1" in check_finished(paths, plan)["files"]
