"""Thousands of random damages are all found with the right exit code; no harmless change is."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.cli.study import harness, ok
from tests.tamper import hands, mutations


def drive(study: Path, rounds: int, seed: int) -> None:
    choose, files = random.Random(seed), mutations.targets(study)
    ok(study, "verify")
    for number in range(rounds):
        with mutations.damaged(choose, files) as damage:
            result = harness(study, "verify")
            where = f"seed {seed}, round {number}: {damage.text}: {result}"
            assert result.code in damage.codes, where
            assert result.err, where
            assert hands.one_line(result.err), where
            assert "verified" not in result.out, where
    ok(study, "verify")


def drive_archive(study: Path, folder: Path, rounds: int, seed: int) -> None:
    choose, path = random.Random(seed), folder / "toy.tar"
    ok(study, "archive", "pack", "toy", "--output", str(path))
    whole = path.read_bytes()
    for number in range(rounds):
        name = choose.choice(list(mutations.BYTES))
        after = mutations.BYTES[name][0](choose, whole)
        if after == whole:
            continue
        path.write_bytes(after)
        result = harness(folder, "archive", "verify", "toy.tar")
        where = f"seed {seed}, round {number}: {name}: {result}"
        assert result.code in (3, 4), where
        assert "toy.tar: " in result.err, where
        assert hands.one_line(result.err), where
    path.write_bytes(whole)
    ok(folder, "archive", "verify", "toy.tar")


def drive_harmless(study: Path, scratch: Path, rounds: int, seed: int) -> None:
    choose = random.Random(seed)
    for number in range(rounds):
        kind, start, copy = mutations.harmless(choose, study, scratch)
        result = harness(start, "verify")
        assert result.code == 0, (seed, number, kind, result)
        assert "verified" in result.out
        shutil.rmtree(copy)


def test_a_sample_of_damages_is_found(study: Path, tmp_path: Path) -> None:
    drive(study, 16, seed=1)
    drive_archive(study, tmp_path, 10, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 109))
def test_every_damage_is_found(study: Path, seed: int) -> None:
    drive(study, 200, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 202))
def test_every_damage_to_an_archive_is_found(study: Path, tmp_path: Path, seed: int) -> None:
    drive_archive(study, tmp_path, 200, seed)


def test_a_sample_of_harmless_changes_is_none(study: Path, tmp_path: Path) -> None:
    drive_harmless(study, tmp_path, 5, seed=1)


@pytest.mark.slow
def test_no_harmless_change_is_found(study: Path, tmp_path: Path) -> None:
    drive_harmless(study, tmp_path, 180, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_locale_and_time_zone_are_harmless(study: Path, locale: str, zone: str) -> None:
    environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "TZ": zone}
    done = hands.process(study, "verify", env=environment)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 0, err


@pytest.mark.slow
def test_ten_fresh_checkouts_are_harmless(study: Path, tmp_path: Path) -> None:
    hands.git(study, "init", "-q")
    hands.git(study, "add", "-A", "-f")
    hands.git(study, "commit", "-qm", "all")
    for number in range(10):
        there = tmp_path / f"clone{number}"
        crlf = "true" if number % 2 else "input"
        hands.git(tmp_path, "-c", f"core.autocrlf={crlf}", "clone", "-q", str(study), str(there))
        ok(there, "verify")
