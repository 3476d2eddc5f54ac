"""T09–T15: numbers, keys, letters, line endings and comments, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.study import SELECT, harness, ok
from tests.tamper import hands


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "plain"
    (folder / "conf").mkdir(parents=True)
    return folder


def put(project: Path, old: str, new: str, text: str = SELECT) -> Path:
    assert old in text
    path = project / "conf" / "toy_select.yaml"
    path.write_bytes(text.replace(old, new).encode("utf-8", "surrogatepass"))
    return path


def digest(project: Path) -> str:
    return str(json.loads(ok(project, "show", "toy_select", "--json").out)["digest"])


def show(project: Path) -> int:
    return harness(project, "show", "toy_select").code


LIMITS = "limits: {}"


def test_t09_one_float_one_hash_one_int_one_spelling(project: Path) -> None:
    found = set()
    for value in ("1", "1.0", "1e0", "1.00"):
        put(project, LIMITS, f"limits: {{item_timeout_s: {value}}}")
        found.add(digest(project))
    assert len(found) == 1
    for value, code in (("8", 0), ("8.0", 2), ("8e0", 2), ("8.00", 2)):
        put(project, "blocks: 8", f"blocks: {value}")
        result = harness(project, "show", "toy_select")
        assert result.code == code, value
        assert code == 0 or "schedule.blocks" in result.err


def test_t10_spellings_of_numbers(project: Path) -> None:
    found = set()
    for value in ("3e-4", "3.0e-4", "0.0003"):
        put(project, LIMITS, f"limits: {{aa_ratio: {value}}}")
        found.add(digest(project))
    assert len(found) == 1
    for value in ("010", "1:30", "on", "1_000"):
        put(project, "blocks: 8", f"blocks: {value}")
        result = harness(project, "show", "toy_select")
        assert result.code == 2, value
        assert f"{value}: YAML reads" in result.err
    for value in (".nan", ".inf", "1e400", "-.inf"):
        put(project, LIMITS, f"limits: {{item_timeout_s: {value}}}")
        assert show(project) == 2, value


def test_t10_minus_zero_is_folded_into_zero(project: Path) -> None:
    found = set()
    for value in ("0.0", "-0.0"):
        put(project, "region: [1.0, null]", f"region: [null, {value}]")
        found.add(digest(project))
    assert len(found) == 1


def test_t11_a_key_twice_and_keys_that_collapse(project: Path, study: Path) -> None:
    path = put(project, "stage: select", "stage: select\nstage: select")
    result = harness(project, "show", "toy_select")
    assert result.code == 2
    assert "stage" in result.err
    assert path.name in result.err
    put(project, LIMITS, "limits: {1: a, true: b}")
    assert show(project) == 2
    seal = hands.run_of(study) / "seal.json"
    data = seal.read_bytes()
    seal.write_bytes(data.replace(b'{"digest"', b'{"digest":"0","digest"', 1))
    result = harness(study, "verify")
    assert result.code == 3
    assert "digest" in result.err


def test_t12_a_plan_means_the_same_everywhere(project: Path, tmp_path: Path) -> None:
    for value in ("${now:%Y}", "${oc.env:HOME}", "${oc.env:NOTHING,7}", "${hydra:job.name}"):
        path = put(project, "title: which toy patch", f"title: '{value}'")
        result = harness(project, "freeze", "conf=toy_select")
        assert result.code == 2, value
        assert path.name in result.err
    put(project, "title: which toy patch", "title: ???")
    result = harness(project, "freeze", "conf=toy_select")
    assert result.code == 2
    assert "title" in result.err
    put(project, "title: which toy patch", "title: which toy patch")
    below = project / "notes" / "deep"
    below.mkdir(parents=True)
    assert digest(project) == digest(below)
    moved = tmp_path / "elsewhere"
    project.rename(moved)
    assert digest(moved) == digest(moved / "notes")


def test_t13_letters(project: Path) -> None:
    put(project, "title: which toy patch", "title: caf\u00e9")
    digest(project)
    put(project, "title: which toy patch", "title: cafe\u0301")
    result = harness(project, "show", "toy_select")
    assert result.code == 2
    assert "NFD" in result.err
    assert "line 5" in result.err
    path = put(project, "title: which toy patch", "title: x")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert harness(project, "freeze", "conf=toy_select").code == 2
    put(project, "title: which toy patch", 'title: "\\ud800"')
    result = harness(project, "freeze", "conf=toy_select")
    assert result.code == 2
    assert hands.one_line(result.err)
    path.write_bytes(b"title: \xe9\n")
    result = harness(project, "show", "toy_select")
    assert result.code == 2
    assert "conf/toy_select.yaml: not UTF-8 at byte 7" in result.err


def test_t13_separators_are_kept_and_never_make_a_second_record(study: Path) -> None:
    reason = "one\u2028two\nthree"
    assert harness(study, "deviate", "toy_confirm", "--reason", reason).code == 6
    path = hands.records(study)[-1]
    assert path.read_bytes().count(b"\n") == 1
    assert hands.load(path)["body"]["reason"] == reason
    result = harness(study, "verify")
    assert result.code == 6
    exported = ok(study, "ledger", "export", "toy").out
    assert exported.count("\n") == len(hands.records(study))


def test_t14_line_endings_are_a_change_and_are_named(study: Path) -> None:
    for path in (hands.lock_of(study), hands.conf_of(study), hands.record(study, 2)):
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\n", b"\r\n"))
        result = harness(study, "verify")
        assert result.code == 3, path
        assert "line endings" in result.err
        path.write_bytes(data)
    ok(study, "verify")


def test_t14_git_leaves_frozen_bytes_alone(study: Path, tmp_path: Path) -> None:
    (study / ".gitignore").write_text("runs/*/*/logs\n")
    hands.git(study, "init", "-q")
    hands.git(study, "add", "-A")
    hands.git(study, "commit", "-qm", "all")
    there = tmp_path / "clone"
    hands.git(tmp_path, "-c", "core.autocrlf=true", "clone", "-q", str(study), str(there))
    ok(there, "verify")


def test_t15_a_comment_is_a_change_of_layout_only(study: Path) -> None:
    path = hands.conf_of(study)
    data = path.read_text()
    for text in (f"{data}# the bar is lower\n", data.replace("study: toy\n", "study: toy   \n")):
        path.write_text(text)
        result = harness(study, "verify")
        assert result.code == 3
        assert "comment or layout only" in result.err
    path.write_text(data.replace("1.4, null", "1.3, null"))
    result = harness(study, "verify")
    assert result.code == 3
    assert "comment or layout only" not in result.err
