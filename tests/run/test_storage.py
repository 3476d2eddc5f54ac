"""Disks that are full or read-only, under the whole command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.framed import scan
from tests.cli.study import harness, ok, write_plans
from tests.run.bench import plan_of
from tests.run.drill import check_finished, run, runs

PLAN = plan_of()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not sys.platform.startswith("linux") or _mount(folder, "size=1m") != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(folder: Path, options: str) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_a_full_file_system_is_exit_10_and_resumes_once_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (1 << 20))
    with filler.open("r+b") as handle:
        handle.truncate((1 << 20) - 60_000)
    code, errors = run(small_disk, {})
    assert code == 10
    assert "cannot be written: No space left on device" in errors
    assert "Traceback" not in errors
    paths = runs(small_disk)[0]
    kept = paths.journal.read_bytes()
    assert scan(paths.journal).torn == b""
    filler.unlink()
    assert run(small_disk, {})[0] == 0
    assert paths.journal.read_bytes().startswith(kept)
    check_finished(paths, PLAN)


def test_a_folder_that_is_read_only_is_exit_10(small_disk: Path) -> None:
    write_plans(small_disk)
    ok(small_disk, "freeze", "conf=toy_select")
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    before = sorted(small_disk.rglob("*"))
    for words in (["run", "conf=toy_select"], ["freeze", "conf=toy_select"]):
        result = harness(small_disk, *words)
        assert (result.code, result.err.count("\n")) in ((10, 1), (5, 1)), result.err
    assert harness(small_disk, "run", "conf=toy_select").code == 10
    assert sorted(small_disk.rglob("*")) == before
