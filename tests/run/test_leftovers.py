"""What a worker starts ends with it, and what a killed runner left ends when the run resumes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.run import cgroup, family, ports
from harness.run.family import RUN, alive, marked, orphans, run_mark
from harness.run.process import WorkerProcess
from harness.run.settle import Settled
from harness.run.supervisor import execute
from harness.store.errors import NotReadyError, RefusedError
from harness.store.paths import Project
from tests.cli.study import harness
from tests.run.bench import context_of, journal, kinds, new_run, plan_of, two_arms
from tests.run.drill import check_finished, runs, start, wait_for_visits

QUICK = {"aa_blocks": 0, "launches_per_arm": 1}
ESCAPE = """
    import os, signal, sys, time
    {clear}
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("ghost", "w").write(str(os.getpid()))
            time.sleep(60)
        os._exit(0)
    for line in sys.stdin:
        print('{{"ok": true}}', flush=True)
"""


def escaped(folder: Path, clear: str = "") -> tuple[WorkerProcess, psutil.Process]:
    command = [sys.executable, "-c", textwrap.dedent(ESCAPE.format(clear=clear))]
    worker = WorkerProcess(command, folder / "err", environment={}, folder=folder)
    path = folder / "ghost"
    while not path.exists() or not path.read_text():
        time.sleep(0.005)
    return worker, psutil.Process(int(path.read_text()))


def test_a_child_that_left_group_session_and_parent_ends_with_its_worker(tmp_path: Path) -> None:
    worker, ghost = escaped(tmp_path)
    assert os.getpgid(ghost.pid) != worker.pid
    assert worker.close(grace_s=0.1) == 1
    assert not alive(ghost)


def test_a_control_group_holds_even_a_child_without_the_mark(tmp_path: Path) -> None:
    clear = (
        "if 'HARNESS_RUN' in os.environ: os.execve(sys.executable, "
        "[sys.executable, *sys.orig_argv[1:]], {})"
    )
    worker, ghost = escaped(tmp_path, clear)
    if worker._group is None:
        ghost.kill()
        worker.close()
        pytest.skip("no control group can be made here")
    assert b"HARNESS_RUN" not in Path(f"/proc/{ghost.pid}/environ").read_bytes()
    assert worker.close(grace_s=0.1) == 1
    assert not alive(ghost)
    assert not worker._group.exists()


def test_processes_without_the_mark_are_never_touched(tmp_path: Path) -> None:
    environment = {**os.environ, "HARNESS_RUN": "0" * 16, "HARNESS_RUNNER": "1:0.00"}
    other = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    plain = subprocess.Popen(["sleep", "60"])
    try:
        context = new_run(tmp_path, plan_of(two_arms(ghost=True), QUICK))
        execute(context)
        assert other.poll() is None
        assert plain.poll() is None
    finally:
        other.kill()
        plain.kill()
        other.wait()
        plain.wait()


def test_what_a_killed_runner_left_is_listed_and_ended_when_the_run_resumes(
    tmp_path: Path,
) -> None:
    slow = {"real_sleep": True, "prefill_ms": 5.0, "ghost": True}
    arms, schedule = two_arms(slow, **slow), {**QUICK, "blocks": 12}
    plan = plan_of(arms, schedule)
    driver = start(tmp_path, {"arms": arms, "schedule": schedule})
    wait_for_visits(tmp_path, plan, 4, driver)
    driver.kill()
    driver.communicate()
    paths = runs(tmp_path)[0]
    mark = run_mark(paths.logs)
    time.sleep(0.1)
    left = orphans(mark)
    assert len(left) == 2
    held = ports.listening(left)
    assert len(held) == 2
    listed = harness(tmp_path, "doctor", "--leftovers")
    assert listed.code == 8
    assert all(f"process {process.pid} (" in listed.out for process in left)
    execute(context_of(Project(tmp_path), plan, paths))
    assert not marked(RUN, mark)
    assert not any(ports.taken(port) for port in held)
    assert cgroup.left_by(mark) == []
    assert kinds(journal(paths), "run", event="resumed")[0]["leftovers"] == 2
    check_finished(paths, plan)


def test_empty_groups_of_dead_runners_are_listed_and_removed_by_a_later_run(
    tmp_path: Path,
) -> None:
    worker, ghost = escaped(tmp_path)
    worker.close(grace_s=0.1)
    if worker._group is None:
        pytest.skip("no control group can be made here")
    assert not alive(ghost)
    project, plan = Project(tmp_path / "mine"), plan_of(schedule=QUICK)
    first = new_run(project.root, plan)
    dead, living = "1:0.00", family.marks(first.paths.logs)[family.RUNNER]
    made = {
        name: worker._group.with_name(f"harness-{run}-{'0' * 16}-{runner.replace(':', '_')}")
        for name, run, runner in (
            ("own", run_mark(first.paths.logs), dead),
            ("live", run_mark(first.paths.logs), living),
            ("other", "f" * 16, dead),
        )
    }
    unmarked = worker._group.with_name("harness-of-someone-else")
    try:
        for folder in (*made.values(), unmarked):
            folder.mkdir()
        listed = harness(tmp_path, "doctor", "--leftovers")
        assert listed.code == 8
        for name, folder in made.items():
            assert (f"empty control group {folder}" in listed.out) == (name != "live")
        assert str(unmarked) not in listed.out
        execute(new_run(project.root, plan))
        left = {name: folder.exists() for name, folder in made.items()}
        assert left == {"own": False, "live": True, "other": True}
        assert unmarked.exists()
    finally:
        for folder in (*made.values(), unmarked):
            if folder.exists():
                folder.rmdir()


def test_a_group_with_a_process_in_it_is_never_taken_for_empty(tmp_path: Path) -> None:
    worker, _ = escaped(tmp_path)
    try:
        mine = [group for group in cgroup.groups() if group.folder == worker._group]
        if not mine:
            pytest.skip("no control group can be made here")
        assert not mine[0].empty
        mine[0].remove()
        assert mine[0].folder.exists()
        assert family.runner_lives(mine[0].runner)
    finally:
        worker.close(grace_s=0.1)


def test_a_port_that_stays_taken_stops_the_run_with_port_and_process() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        settled = Settled("cpu")
        settled.watch([port])
        text = rf"arms\.fast: port {port} of an ended worker is still held by process {os.getpid()}"
        with pytest.raises(NotReadyError, match=text):
            settled.check("fast", idle=True, patience_s=0.1)
    settled.check("fast", idle=True, patience_s=0.1)


def test_device_memory_must_be_free_before_the_next_arm_but_not_beside_a_live_one() -> None:
    used = iter([1 << 30, 9 << 30, 9 << 30, 9 << 30, 1 << 30])
    settled = Settled("cuda", lambda: next(used))
    with pytest.raises(NotReadyError, match="8192 MiB of device memory are still held"):
        settled.check("fast", idle=True, patience_s=0.0)
    settled.check("fast", idle=False, patience_s=0.0)
    settled.check("fast", idle=True, patience_s=1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"probe_unstable": True}, "its probe gives other log-probs than its first worker's"),
        ({"probe_fails": True}, "worker did not start: Out of range float values"),
    ],
)
def test_a_wrong_answer_to_the_probe_stops_the_run(
    tmp_path: Path, options: dict[str, Any], text: str
) -> None:
    context = new_run(tmp_path, plan_of(two_arms(**options), {"aa_blocks": 0}))
    with pytest.raises((RefusedError, NotReadyError), match=rf"arms\.patched: .*{text}"):
        execute(context)


def test_growing_memory_is_seen(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(two_arms(memory_growth_mib=4), QUICK))
    execute(context)
    visits = kinds(journal(context.paths), "visit", phase="scored", arm="patched")
    assert visits[-1]["load"]["workers_mib"] - visits[0]["load"]["workers_mib"] >= 4 * 11 - 1


def test_a_runner_is_told_by_its_start_not_by_its_number_alone() -> None:
    environment = {**os.environ, **family.marks(Path("logs"))}
    child = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        deadline = time.monotonic() + 10  # the mark shows once the child has become its program
        while child.pid not in [process.pid for process in marked(RUN, environment[RUN])]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert child.pid not in [process.pid for process in orphans(environment[RUN])]
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
