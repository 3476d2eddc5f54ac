"""Exclusive publication: all of it or nothing, one winner, nothing overwritten."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store.errors import ChangedError, IncompleteError, StorageError
from harness.store.files import create, create_json, read_json, replace


def test_create_publishes_once_and_leaves_no_temporary(tmp_path: Path) -> None:
    create(tmp_path / "a", b"one")
    with pytest.raises(FileExistsError):
        create(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def _race(path: Path, number: int, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    try:
        create(path, str(number).encode())
    except FileExistsError:
        sys.exit(5)


def test_eight_writers_of_one_name_have_one_winner(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(8)
    workers = [context.Process(target=_race, args=(tmp_path / "x", n, start)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(worker.exitcode or 0 for worker in workers) == [0] + [5] * 7


def test_replace_swaps_in_one_step(tmp_path: Path) -> None:
    replace(tmp_path / "a", b"one")
    replace(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"


def test_a_full_disk_leaves_the_old_file_and_no_new_one(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from harness.store.files import create\n"
        "from harness.store.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: create(Path(sys.argv[1]), b'x' * 5000)\n"
        "except StorageError as error: print(error); sys.exit(10)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "big")], capture_output=True, text=True
    )
    assert result.returncode == 10, result.stderr
    assert "cannot be written" in result.stdout
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_a_storage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot be written"):
        create(tmp_path / "a", b"")


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (None, IncompleteError, "missing"),
        (b"", IncompleteError, "cut short"),
        (b'{"a":1', ChangedError, "damaged"),
        (b'{"a": 1}\n', ChangedError, "canonical"),
        (b'{"a":1}\r\n', ChangedError, "line endings"),
        (b'{"a":1,"a":1}\n', ChangedError, "twice"),
        (b'{"a":NaN}\n', ChangedError, "not a JSON number"),
        (b'{"a":1e400}\n', ChangedError, "overflows"),
        (b"[1]\n", ChangedError, "canonical"),
        (b"\xff", ChangedError, "damaged"),
    ],
)
def test_what_is_not_as_written_is_named(
    tmp_path: Path, data: bytes | None, error: type[Exception], text: str
) -> None:
    path = tmp_path / "f.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error, match=text) as caught:
        read_json(path)
    assert "f.json" in str(caught.value)


def test_json_survives_a_round_trip_with_line_separators(tmp_path: Path) -> None:
    value = {"text": "one\u2028two\nthree", "n": 1}
    create_json(tmp_path / "f", value)
    assert read_json(tmp_path / "f") == value
    assert (tmp_path / "f").read_bytes().count(b"\n") == 1


def test_a_link_whose_reply_was_lost_is_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = os.link

    def lossy(source: Path, target: Path) -> None:
        honest(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", lossy)
    create(tmp_path / "record", b"mine")
    assert (tmp_path / "record").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["record"]
    monkeypatch.setattr(os, "link", honest)
    with pytest.raises(FileExistsError):
        create(tmp_path / "record", b"another")
    assert (tmp_path / "record").read_bytes() == b"mine"
