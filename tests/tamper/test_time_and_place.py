"""T29–T31, T33 and T34: clocks, commits, signatures, machines, and every lock on a question."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.study import SELECT, harness, ok, write_plans
from tests.tamper import hands
from tests.tamper.plans import DIRECT, frozen, write

YEARS = 3 * 365 * 86_400.0


@pytest.mark.slow
def test_t29_the_chain_decides_and_the_clock_is_named(tmp_path: Path) -> None:
    with hands.clock(2 / 3 * YEARS):
        frozen(tmp_path, "toy_direct", DIRECT)
    assert "lies ahead of" in ok(tmp_path, "verify").out
    with hands.clock(-YEARS):
        ok(tmp_path, "run", "toy_direct")
    result = ok(tmp_path, "verify")
    assert "clock anomaly" in result.out
    ok(tmp_path, "report", "toy_direct")
    page = hands.run_of(tmp_path, "toy_direct") / "report" / "report.md"
    assert "clock anomaly" in page.read_text()


def test_t29_an_append_with_another_clock(study: Path) -> None:
    for seconds, word in ((-YEARS, "clock anomaly"), (YEARS, "lies ahead")):
        with hands.clock(seconds):
            assert harness(study, "deviate", "toy_confirm", "--reason", "x").code == 6
        assert word in harness(study, "verify").out


def test_t29_a_run_before_its_lock_in_the_chain_is_a_change(study: Path) -> None:
    first, second = hands.record(study, 1), hands.record(study, 2)
    one, other = hands.load(first), hands.load(second)
    for key in ("body", "kind", "at"):
        one[key], other[key] = other[key], one[key]
    hands.store(first, one)
    hands.store(second, other)
    hands.relink(study)
    result = harness(study, "verify")
    assert result.code == 3
    assert "ran before it was frozen" in result.err


@pytest.mark.parametrize(
    ("key", "value"),
    [("frozen_utc", "2020-01-01T00:00:00.000000Z"), ("device_class", "cpu: another"),
     ("git", {"commit": "0" * 40, "dirty": False})],
)  # fmt: skip
def test_t30_time_place_and_commit_are_hashed(study: Path, key: str, value: object) -> None:
    hands.edit(hands.lock_of(study), lambda lock: lock.update({key: value}))
    result = harness(study, "verify")
    assert result.code == 3
    assert "lock.json" in result.err


def test_t30_the_commit_must_hold_the_plan(tmp_path: Path) -> None:
    write(tmp_path, "toy_direct", DIRECT.replace("1.4, null", "1.2, null"))
    hands.git(tmp_path, "init", "-q")
    hands.git(tmp_path, "add", "-A")
    hands.git(tmp_path, "commit", "-qm", "another bar")
    other = hands.git(tmp_path, "rev-parse", "HEAD")
    write(tmp_path, "toy_direct", DIRECT)
    hands.git(tmp_path, "commit", "-qam", "the bar")
    ok(tmp_path, "freeze", "toy_direct")
    hands.git(tmp_path, "add", "-A")
    hands.git(tmp_path, "commit", "-qm", "the lock")
    assert harness(tmp_path, "verify", "--require-anchor").code == 0
    path = hands.lock_of(tmp_path, "toy_direct")
    hands.edit(path, lambda lock: lock["git"].update(commit=other))
    assert harness(tmp_path, "verify").code == 3
    from harness.store.digests import sha256_bytes

    digest = sha256_bytes(path.read_bytes())
    hands.edit(hands.record(tmp_path, 1), lambda one: one["body"].update(lock_digest=digest))
    hands.relink(tmp_path)
    assert harness(tmp_path, "verify").code == 0
    result = harness(tmp_path, "verify", "--require-anchor")
    assert result.code == 3
    assert f"{other[:12]} does not hold conf/toy_direct.yaml" in result.err


def test_t31_a_lock_committed_before_its_results_is_anchored(direct: Path) -> None:
    result = harness(direct, "verify", "--require-anchor")
    assert result.code == 0, result.err
    assert "anchored by git commit" in result.out
    assert "before the results" in result.out
    assert "starts git" in result.err
    assert harness(direct, "report", "toy_direct", "--require-anchor").code == 0
    page = hands.run_of(direct, "toy_direct") / "report" / "report.md"
    assert "anchored by git commit" in page.read_text()


def test_t31_one_commit_for_plan_and_results_shows_no_order(direct: Path, tmp_path: Path) -> None:
    shutil.rmtree(direct / ".git")
    hands.git(direct, "init", "-q")
    hands.git(direct, "add", "-A")
    hands.git(direct, "commit", "-qm", "everything at once")
    assert "unanchored" in ok(direct, "verify").out
    result = harness(direct, "verify", "--require-anchor")
    assert result.code == 7
    assert "no evidence of order from git" in result.err
    assert harness(direct, "report", "toy_direct", "--require-anchor").code == 7
    assert "unanchored" in (hands.run_of(direct, "toy_direct") / "report" / "report.md").read_text()


def test_t31_a_shallow_clone_cannot_be_checked(direct: Path, tmp_path: Path) -> None:
    there = tmp_path / "shallow"
    hands.git(tmp_path, "clone", "-q", "--depth", "1", f"file://{direct}", str(there))
    result = harness(there, "verify", "--require-anchor")
    assert result.code == 7
    assert "not checkable" in result.err


def key_of(folder: Path, name: str) -> tuple[Path, Path]:
    """A fresh ssh key and a file that allows it."""
    key, signers = folder / name, folder / f"{name}.signers"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True
    )
    signers.write_text(f"{name} {key.with_suffix('.pub').read_text()}")
    return key, signers


def test_a_signed_head_anchors_and_shows_a_rewritten_ledger(study: Path, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "alice")
    _, others = key_of(tmp_path, "bob")
    ok(study, "ledger", "anchor", "toy", "--sign", str(key))
    assert harness(study, "ledger", "anchor", "toy", "--sign", str(key)).code == 2
    result = ok(study, "verify", "--signers", str(signers), "--require-anchor")
    assert "the signature of alice" in result.out
    assert "after the results" in result.out
    result = harness(study, "verify", "--signers", str(others), "--require-anchor")
    assert result.code == 7
    assert "signed by nobody" in result.err
    inside = study / "key"
    shutil.copy(key, inside)
    assert harness(study, "ledger", "anchor", "toy", "--sign", str(inside)).code == 2
    hands.edit(hands.record(study, 1), lambda one: one.update(at="2020-01-01T00:00:00.000000Z"))
    hands.rewrite_all(study)
    assert harness(study, "verify", "--signers", str(signers)).code == 3


def test_a_signature_for_another_purpose_is_none(study: Path, tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "alice")
    ok(study, "ledger", "anchor", "toy", "--sign", str(key))
    statement = next((study / "anchors" / "toy").glob("*.json"))
    statement.with_name(f"{statement.name}.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "file", str(statement)],
        check=True, capture_output=True,
    )  # fmt: skip
    result = harness(study, "verify", "--signers", str(signers), "--require-anchor")
    assert result.code == 7
    assert "does not fit" in result.err


def test_t33_odd_places_end_cleanly(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, code in (
        (("verify", "nowhere"), 2),
        (("archive", "verify", "nowhere.tar"), 4),
        (("ledger", "show", "nothing"), 4),
        (("verify", "--anchor", "nowhere.json"), 4),
        (("verify", "--anchor", "conf/toy_select.yaml"), 2),
        (("amend", "toy_confirm", "--reason", " "), 2),
        (("deviate", "nothing", "--reason", "x"), 4),
        (("ledger", "adopt", "toy_confirm"), 5),
    ):
        result = harness(study, *words)
        assert result.code == code, (words, result)
        assert result.err.count("\n") == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "nothing to verify" in ok(empty, "verify").out
    assert harness(empty, "ledger", "show").code == 4
    write_plans(empty)
    (empty / "ledgers").write_text("a file where a folder belongs")
    result = harness(empty, "freeze", "toy_select")
    assert result.code in (2, 10)
    assert hands.one_line(result.err)
    (empty / "ledgers").unlink()
    monkeypatch.setenv("PATH", str(empty))  # no git, no ssh-keygen
    shutil.rmtree(empty / "preregistrations", ignore_errors=True)
    ok(empty, "freeze", "toy_select")
    assert hands.load(hands.lock_of(empty, "toy_select"))["git"] is None
    result = harness(study, "verify", "--require-anchor")
    assert result.code == 7
    key = tmp_path / "key"
    key.write_text("x")
    assert harness(study, "ledger", "anchor", "toy", "--sign", str(key)).code == 8


def test_t33_an_archive_verifies_without_git_gpu_or_network(study: Path, tmp_path: Path) -> None:
    path = tmp_path / "toy.tar"
    ok(study, "archive", "pack", "toy", "--output", str(path))
    bare = tmp_path / "bare"
    bare.mkdir()
    environment = {
        "PATH": str(bare), "LC_ALL": "C", "LANG": "C", "HOME": str(bare), "TMPDIR": str(bare),
        "CUDA_VISIBLE_DEVICES": "", "http_proxy": "http://127.0.0.1:9", "TZ": "Asia/Kathmandu",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    done = hands.process(
        bare, "archive", "verify", str(path), env=environment, preexec_fn=lambda: os.umask(0o077)
    )
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert "verified: toy.tar" in out


def test_t33_a_detached_worktree_is_a_project_too(direct: Path, tmp_path: Path) -> None:
    there = tmp_path / "tree"
    hands.git(direct, "worktree", "add", "-q", "--detach", str(there))
    assert harness(there, "verify", "--require-anchor").code == 0


def test_t34_every_lock_on_a_question_is_listed(study: Path) -> None:
    for name in ("toy_second", "toy_third"):
        write(study, name, DIRECT)
        ok(study, "freeze", name)
    out = ok(study, "ledger", "show", "toy").out
    for part in ("attempt 1 of 3", "attempt 2 of 3", "attempt 3 of 3", "never run"):
        assert part in out, part
    ok(study, "ledger", "report", "toy")
    page = next((study / "reports" / "toy").glob("*.md")).read_text()
    assert "attempt 3 of 3" in page
    assert page.count("never run") >= 2
    ok(study, "report", "toy_confirm")
    assert "attempt 1 of 3" in (hands.run_of(study) / "report" / "report.md").read_text()
    write(study, "toy_other", SELECT.replace("toy_candidates", "another"))
    ok(study, "freeze", "toy_other")
    assert hands.load(hands.lock_of(study, "toy_other"))["attempt"] == 1
