"""`harness dare` cheats ten ways on a copy; each is caught with its sentence."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.study import harness, ok
from tests.tamper import hands


def test_ten_cheats_are_caught_on_a_copy(study: Path) -> None:
    before = {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}
    result = ok(study, "dare")
    assert "10 of 10 cheats were caught" in result.out
    assert result.out.count("caught (") == 10
    assert {path: path.read_bytes() for path in study.rglob("*") if path.is_file()} == before


def test_each_sentence_names_what_was_done(study: Path) -> None:
    found = json.loads(ok(study, "dare", "toy_confirm", "--json").out)
    expected = (
        "conf/toy_confirm.yaml", "lock.json", "lock.json", "record 6: changed", "not in the ledger",
        "seal.json", "seal.json", "record", "the tail was removed", "missing, but the ledger",
    )  # fmt: skip
    for one, part in zip(found, expected, strict=True):
        assert one["caught"], one
        assert part in one["sentence"], one


def test_a_study_that_is_broken_already_is_no_test(study: Path, tmp_path: Path) -> None:
    hands.flip(hands.lock_of(study), 100)
    assert harness(study, "dare").code == 3
    assert harness(tmp_path, "dare").code == 4
