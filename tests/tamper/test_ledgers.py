"""T16–T20: the ledger, record by record, through the command line."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.cli.study import harness, ok
from tests.tamper import hands


def test_t16_one_digit_in_any_record(study: Path) -> None:
    for path in hands.records(study):
        data = path.read_bytes()
        value = hands.load(path)
        value["at"] = value["at"].replace("2", "3", 1)
        hands.store(path, value)
        result = harness(study, "verify")
        assert result.code == 3, path
        assert f"record {int(path.stem)}: " in result.err, (path, result.err)
        path.write_bytes(data)


@pytest.mark.parametrize("removed", [1, 3])
def test_t17_a_removed_tail(study: Path, removed: int) -> None:
    for path in hands.records(study)[-removed:]:
        path.unlink()
    result = harness(study, "verify")
    assert result.code == 3
    assert "the tail was removed" in result.err
    appended = harness(study, "deviate", "toy_confirm", "--reason", "on we go")
    assert appended.code == 5
    assert "restore it" in appended.err


def test_t17_a_missing_ledger_is_incomplete_and_never_clean(study: Path) -> None:
    shutil.rmtree(study / "ledgers" / "toy")
    assert harness(study, "verify").code == 3  # its head says that records were there
    shutil.rmtree(study / "ledgers")
    result = harness(study, "verify")
    assert result.code == 4
    assert "ledgers/toy: missing" in result.err


def test_t18_a_record_cut_anywhere(study: Path) -> None:
    path = hands.records(study)[-1]
    data, number = path.read_bytes(), int(path.stem)
    for length in sorted({0, 1, 2, len(data) - 1, *range(0, len(data), 29)}):
        path.write_bytes(data[:length])
        result = harness(study, "verify", "ledgers/toy")
        assert result.code == 4, length
        assert hands.one_line(result.err)
        assert f"record {number}" in result.err
        assert "torn tail" in result.err
        assert harness(study, "deviate", "toy_confirm", "--reason", "x").code == 5
        assert path.read_bytes() == data[:length]


def test_t18_a_repair_is_explicit_keeps_the_bytes_and_shows_for_ever(study: Path) -> None:
    path = hands.records(study)[-1]
    whole = path.read_bytes()
    assert harness(study, "ledger", "repair", "toy", "--reason", "idle hands").code == 5
    torn = whole[:50]
    path.write_bytes(torn)
    assert harness(study, "ledger", "repair", "toy").code == 2
    out = ok(study, "ledger", "repair", "toy", "--reason", "the disk was full").out
    assert (path.parent / f".{path.name}.torn").read_bytes() == torn
    assert path.parent.name in out
    assert hands.load(path)["kind"] == "ledger.repaired"
    result = harness(study, "verify")
    assert result.code == 6
    assert "the disk was full" in result.err
    assert harness(study, "deviate", "toy_confirm", "--reason", "goes on").code == 6
    assert harness(study, "report", "toy_confirm").code == 6


def _writer(folder: str, count: int) -> None:
    for number in range(count):
        harness(Path(folder), "deviate", "toy_confirm", "--reason", f"note {number}")


def writers(study: Path, count: int, seed: int, kill: bool) -> None:
    """Four processes append; some are killed at a random moment."""
    context = multiprocessing.get_context("fork")
    choose = random.Random(seed)
    jobs = [context.Process(target=_writer, args=(str(study), count)) for _ in range(4)]
    for job in jobs:
        job.start()
    if kill:
        time.sleep(choose.uniform(0.05, 0.6))
        for job in choose.sample(jobs, 2):
            job.kill()
    for job in jobs:
        job.join()
    found = hands.records(study)
    assert [int(path.stem) for path in found] == list(range(1, len(found) + 1))
    result = harness(study, "verify", "ledgers")
    assert result.code == 0, result.err
    assert kill or len(found) >= 10 + 4 * count


def test_t19_four_writers_lose_nothing(study: Path) -> None:
    writers(study, 5, 0, kill=False)
    writers(study, 5, 1, kill=True)


@pytest.mark.slow
def test_t19_four_writers_fifty_appends_twenty_rounds(finished: Path, tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / str(number)
        shutil.copytree(finished, folder)
        writers(folder, 50, number, kill=True)
        shutil.rmtree(folder)


def test_t20_nothing_in_a_record_is_outside_its_hash(study: Path) -> None:
    third, fourth = hands.record(study, 3), hands.record(study, 4)
    kept = third.read_bytes(), fourth.read_bytes()

    def broken(what: str) -> None:
        result = harness(study, "verify")
        assert result.code == 3, what
        assert hands.one_line(result.err)
        third.write_bytes(kept[0])
        fourth.write_bytes(kept[1])

    fourth.write_bytes(kept[0])
    broken("copied")
    third.write_bytes(kept[1])
    fourth.write_bytes(kept[0])
    broken("swapped")
    hands.edit(third, lambda one: one.update(_meta="x"))
    broken("a field more")
    third.write_bytes(kept[0].replace(b'{"at"', b'{"at":"x","at"', 1))
    broken("a key twice")
    extra = study / "ledgers" / "toy" / "00000011.json"
    extra.write_bytes(kept[0])
    result = harness(study, "verify")
    assert result.code == 3
    extra.unlink()
    ok(study, "verify")
