"""T24, T25 and T35: what happens around a run, through the command line."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.prereg.lock import Environment
from harness.store.framed import scan
from tests.cli.study import harness, ok
from tests.tamper import hands
from tests.tamper.plans import DIRECT, PATCHED, SLEEPY, frozen


def journal(folder: Path, plan: str) -> list[dict[str, Any]]:
    path = next((folder / "runs" / plan).glob("0001-*")) / "journal.log"
    return scan(path).records if path.exists() else []


def finished_blocks(folder: Path, plan: str) -> int:
    if not list((folder / "runs" / plan).glob("0001-*")):
        return 0
    records = journal(folder, plan)
    return sum(one["kind"] == "block" and one["event"] == "finished" for one in records)


def wait(folder: Path, plan: str, blocks: int, runner: Any) -> None:
    until = time.monotonic() + 60
    while finished_blocks(folder, plan) < blocks and runner.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)


def visit_keys(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        tuple(one["key"].values())
        for one in records
        if one["kind"] == "visit" and one["phase"] == "scored"
    ]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered run whose runner was killed after two blocks, within the third."""
    folder = frozen(tmp_path_factory.mktemp("killed") / "project", "toy_slow", SLEEPY)
    runner = hands.process(folder, "run", "toy_slow")
    wait(folder, "toy_slow", 2, runner)
    before = len(visit_keys(journal(folder, "toy_slow")))
    while len(visit_keys(journal(folder, "toy_slow"))) == before and runner.poll() is None:
        time.sleep(0.005)
    family = psutil.Process(runner.pid).children(recursive=True)
    runner.send_signal(signal.SIGKILL)
    runner.communicate()
    until = time.monotonic() + 10
    while any(_alive(one) for one in family):
        assert time.monotonic() < until, "a worker outlived its runner"
        time.sleep(0.02)
    return folder


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def half(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "half"))


def test_t35_a_killed_run_is_aborted_and_nothing_is_scored(half: Path) -> None:
    assert "aborted" in ok(half, "status").out
    result = harness(half, "verify")
    assert result.code == 4
    assert "not finished" in result.err
    kinds = [hands.load(path)["kind"] for path in hands.records(half)]
    assert kinds == ["plan.frozen", "run.started"]
    assert harness(half, "report", "toy_slow").code == 4


def test_t24_and_kill_and_redraw(half: Path) -> None:
    before = journal(half, "toy_slow")
    result = harness(half, "run", "toy_slow")
    assert result.code in (0, 9), result.err
    assert "resuming registered run" in result.err
    records = journal(half, "toy_slow")
    assert records[: len(before)] == before
    keys = visit_keys(records)
    assert len(keys) == len(set(keys))
    resumed = [one for one in records if one["kind"] == "run" and one["event"] == "resumed"]
    assert len(resumed) == 1
    cut = [one for one in records if one["kind"] == "block" and one["event"] == "interrupted"]
    assert [one["block"] for one in cut] == [2]
    assert cut[0]["reason"]
    verdicts = hands.load(hands.record(half, hands.number_of(half, "verdicts", "toy_slow")))
    words = {one["id"]: one["word"] for one in verdicts["body"]["verdicts"]}
    assert words["P1"] == words["P2"] == "void"  # one of twelve blocks is more than 5 %
    assert words["P3"] != "void"
    ok(half, "verify")


@pytest.mark.slow
def test_t24_a_second_run_is_a_replication(study: Path) -> None:
    before = [path.read_bytes() for path in hands.records(study)]
    result = ok(study, "run", "toy_confirm")
    assert "replication" in result.err
    assert [path.read_bytes() for path in hands.records(study)] == before


def test_t24_a_deleted_run_is_missing_and_not_run_again(study: Path) -> None:
    shutil.rmtree(study / "runs")
    result = harness(study, "verify")
    assert result.code == 4
    assert "missing, but the ledger holds its start" in result.err
    shutil.rmtree(study / "runs", ignore_errors=True)
    again = harness(study, "run", "toy_confirm")
    # Sealed and judged once: whatever runs now is a replication and decides nothing.
    assert "replication" in again.err or again.code == 4
    assert harness(study, "verify").code == 4


def test_t24_a_deleted_unfinished_run_stays_registered(half: Path) -> None:
    shutil.rmtree(half / "runs")
    assert harness(half, "verify").code == 4
    result = harness(half, "run", "toy_slow")
    assert result.code == 4
    assert "harness deviate" in result.err
    gone = harness(half, "deviate", "toy_slow", "--abandon", "--reason", "the disk died")
    assert gone.code == 9
    assert harness(half, "deviate", "toy_slow", "--abandon", "--reason", "again").code == 5
    assert "abandoned" in ok(half, "ledger", "show").out


def test_t25_a_changed_patch_stops_the_run(tmp_path: Path) -> None:
    folder = frozen(tmp_path, "toy_patched", PATCHED)
    copy = folder / "preregistrations" / "toy_patched" / "patch" / "patches" / "fast.diff"
    copy.write_text("--- a\n+++ c\n")
    result = harness(folder, "run", "toy_patched")
    assert result.code == 3
    assert "fast.diff" in result.err
    assert "nothing was started" in result.err
    assert not list((folder / "runs").glob("toy*"))


def test_t25_another_version_or_device_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.prereg import environment, lock_checks

    folder = frozen(tmp_path, "toy_direct", DIRECT)
    found = environment.environment()
    other = Environment(python=found.python, packages={**found.packages, "numpy": "1.0"})
    monkeypatch.setattr(lock_checks, "environment_of", lambda: other)
    result = harness(folder, "run", "toy_direct")
    assert result.code == 3
    assert "numpy: found 1.0" in result.err
    monkeypatch.undo()
    monkeypatch.setattr(environment, "_cpu_model", lambda: "another processor")
    result = harness(folder, "run", "toy_direct")
    assert result.code == 3
    assert "device_class: found cpu: another processor" in result.err
    assert not list((folder / "runs").glob("toy*"))


def test_t25_a_changed_analysis_script_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.cli import wiring

    script = tmp_path / "analysis.py"
    script.write_text("BAR = 1.4\n")
    monkeypatch.setattr(wiring, "code_files", lambda: [script])
    folder = frozen(tmp_path, "toy_direct", DIRECT)
    script.write_text("BAR = 1.3\n")
    result = harness(folder, "run", "toy_direct")
    assert result.code == 3
    assert "analysis.py" in result.err


@pytest.mark.slow
def test_t25_a_change_while_the_run_goes_on_is_found(half: Path) -> None:
    runner = hands.process(half, "run", "toy_slow")
    wait(half, "toy_slow", 4, runner)
    conf = hands.conf_of(half, "toy_slow")
    text = conf.read_text()
    conf.write_text(text.replace("1.4, null", "1.3, null"))
    _, err = runner.communicate(timeout=60)
    assert runner.returncode == 3, err
    assert "conf/toy_slow.yaml" in err
    assert harness(half, "verify").code == 3
    conf.write_text(text)
    assert harness(half, "run", "toy_slow").code in (0, 9)
