"""The known ways out, each tried through the command line, and what closes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.store.framed import scan
from tests.cli.study import harness, ok
from tests.tamper import hands
from tests.tamper.plans import DIRECT, EXPLORE, frozen, write


def verdicts(folder: Path, plan: str) -> dict[str, str]:
    value = hands.load(hands.record(folder, hands.number_of(folder, "verdicts", plan)))
    return {one["id"]: one["word"] for one in value["body"]["verdicts"]}


def test_run_until_good(study: Path) -> None:
    """The first run counts; more runs are replications, adopted or not."""
    before = verdicts(study, "toy_confirm")
    ok(study, "run", "toy_confirm")
    result = ok(study, "ledger", "adopt", "toy_confirm@2")
    assert "registered verdicts stay" in result.out
    assert harness(study, "ledger", "adopt", "toy_confirm@2").code == 5
    assert harness(study, "ledger", "adopt", "toy_confirm@1").code == 5
    assert verdicts(study, "toy_confirm") == before
    ok(study, "verify")
    other = hands.run_of(study, ordinal=2)
    records = sorted((other / "chain").glob("*.json"))
    hands.edit(records[-1], lambda one: one.update(at="2020-01-01T00:00:00.000000Z"))
    assert harness(study, "verify").code == 3
    shutil.rmtree(other)
    result = harness(study, "verify")
    assert result.code == 4
    assert "adopted it" in result.err


def test_void_what_hurts_by_hand(study: Path) -> None:
    run = hands.run_of(study)

    def void(records: list[hands.Json]) -> list[hands.Json]:
        for one in records:
            if one["kind"] == "block" and one["event"] == "finished" and one["block"] < 2:
                one.update(event="void", reason="it felt slow")
        return records

    hands.reseal(run, void)
    result = harness(study, "verify")
    assert result.code == 3
    assert "by ledger record" in result.err


def test_void_what_hurts_by_limit(tmp_path: Path) -> None:
    """Above ten per cent of voided blocks nothing is decided, in whichever direction."""
    warm = "speedup: 1.6, warm_cache_speedup: 4.0, cache_survives_reset: true"
    text = EXPLORE.replace("speedup: 1.6", warm).replace("aa_blocks: 8", "aa_blocks: 0")
    write(tmp_path, "look", text)
    result = harness(tmp_path, "run", "look", "--json")
    assert result.code == 9, result.err
    found = json.loads(result.out)["analysis"]
    assert {one["word"] for one in found["verdicts"]} == {"void"}
    assert found["blocks"]["void"] > 1


def test_a_void_run_stays_the_registered_one(tmp_path: Path) -> None:
    frozen(tmp_path, "toy_void", DIRECT.replace("limits: {}", "limits: {aa_ratio: 1.0e-09}"))
    for words in (("run", "toy_void"), ("verify",), ("run", "toy_void")):
        result = harness(tmp_path, *words)
        assert result.code == 9, (words, result)
        assert hands.one_line(result.err)
    starts = [path for path in hands.records(tmp_path) if hands.load(path)["kind"] == "run.started"]
    assert len(starts) == 1
    assert len(list((tmp_path / "runs" / "toy_void").glob("0*"))) == 1


def test_a_second_lock_on_the_same_question(study: Path) -> None:
    """Attempt 2 has half of the error rate to spend, and every verdict says which attempt it is."""
    write(study, "toy_later", DIRECT)
    out = ok(study, "freeze", "toy_later").out
    assert "this is attempt 2 on toy_speedup" in out
    found = json.loads(ok(study, "run", "toy_later", "--json").out)["analysis"]
    assert found["attempt"] == found["attempts"] == 2
    first = hands.load(hands.run_of(study) / "analysis.json")
    levels = [
        next(one["confidence_level"] for one in analysis["verdicts"] if one["id"] == "P1")
        for analysis in (first, found)
    ]
    assert levels == [0.9, 0.95]
    assert "attempt 2 of 2" in (hands.run_of(study, "toy_later") / "report/report.md").read_text()
    hands.edit(hands.lock_of(study, "toy_later"), lambda lock: lock.update(attempt=1))
    assert harness(study, "verify").code == 3


def test_explore_on_confirm_items(study: Path) -> None:
    """Whatever seed an exploration takes, its items come from another bucket of the content."""
    from harness.cli.wiring import draw_items
    from harness.prereg.lock import read_lock
    from harness.store.paths import Project

    lock = read_lock(Project(study), "toy_confirm")
    confirm = set(lock.partitions["confirm"].ids)
    for key in (lock.nonce, lock.plan_digest):
        drawn = draw_items(lock.typed_plan(), "explore", key, 60)
        assert all(item.bucket == "explore" for item in drawn)
    run = hands.run_of(study)
    used = {
        one["key"]["item"]
        for one in scan(run / "journal.log").records
        if one["kind"] == "trial" and one["phase"] != "scored"
    }
    assert used
    assert not used & confirm


@pytest.mark.slow
def test_an_exploration_with_a_chosen_seed_sees_no_confirm_item(study: Path) -> None:
    confirm = set(hands.load(hands.lock_of(study))["partitions"]["confirm"]["ids"])
    write(study, "look", EXPLORE)
    ok(study, "run", "look", "partitions.seed=confirm")
    journal = next((study / "runs" / "look").glob("0001-*")) / "journal.log"
    seen = {one["key"]["item"] for one in scan(journal).records if one["kind"] == "trial"}
    assert seen
    assert not seen & confirm


def test_amending_before_data_is_clean(direct: Path) -> None:
    ok(direct, "verify")
    found = hands.load(hands.run_of(direct, "toy_direct") / "analysis.json")
    region = next(one["region"] for one in found["verdicts"] if one["id"] == "P1")
    assert region == [1.5, None]
    amendment = hands.load(direct / "preregistrations/toy_direct/amendments/0001.json")
    assert amendment["access"] == "nothing_run"
    assert [one["key"] for one in amendment["changes"]] == ["predictions.P1"]


def test_amending_after_data_deviates_and_what_is_measured_cannot_be_amended(direct: Path) -> None:
    conf = hands.conf_of(direct, "toy_direct")
    text = conf.read_text()
    assert harness(direct, "amend", "toy_direct", "--reason", "no change").code == 2
    conf.write_text(text.replace("speedup: 1.6", "speedup: 9.9"))
    result = harness(direct, "amend", "toy_direct", "--reason", "another arm")
    assert result.code == 5
    assert "decides what is measured" in result.err
    conf.write_text(text + "# only a comment\n")
    assert harness(direct, "verify").code == 3
    ok(direct, "amend", "toy_direct", "--reason", "a comment")
    ok(direct, "verify")
    conf.write_text(text.replace("1.5, null", "1.1, null"))
    assert harness(direct, "amend", "toy_direct", "--reason", "after all").code == 6
    assert harness(direct, "verify").code == 6
    path = direct / "preregistrations/toy_direct/amendments/0003.json"
    hands.edit(path, lambda one: one.update(access="nothing_run"))
    assert harness(direct, "verify").code == 3
    path.unlink()
    result = harness(direct, "verify")
    assert result.code == 3  # the conf file is now that of no amendment that is there
    assert "0003.json: missing" in result.err


def test_a_forged_access_level_is_derived_again(direct: Path) -> None:
    conf = hands.conf_of(direct, "toy_direct")
    hands.swap_text(conf, "1.5, null", "1.1, null")
    assert harness(direct, "amend", "toy_direct", "--reason", "after all").code == 6
    from harness.store.digests import sha256_bytes

    path = direct / "preregistrations/toy_direct/amendments/0002.json"
    hands.edit(path, lambda one: one.update(access="nothing_run"))
    last = hands.records(direct)[-1]
    digest = sha256_bytes(path.read_bytes())
    hands.edit(last, lambda one: one["body"].update(access="nothing_run", file_digest=digest))
    hands.relink(direct)
    result = harness(direct, "verify")
    assert result.code == 3
    assert "access: found nothing_run, but derived results_opened" in result.err


@pytest.mark.slow
def test_a_forked_clone(direct: Path, tmp_path: Path) -> None:
    """Two clones run the same lock; the better one cannot be put in the other's place."""
    saved = tmp_path / "head.json"
    ok(direct, "ledger", "anchor", "toy", "--save", str(saved))
    fork = Path(shutil.copytree(direct, tmp_path / "fork"))
    # The fork goes back to the lock and runs again, as if the first run had never been.
    hands.git(fork, "reset", "-q", "--hard", "HEAD~1")
    for name in ("runs", "ledgers/toy", "preregistrations/toy_direct/amendments"):
        shutil.rmtree(fork / name, ignore_errors=True)
    hands.git(fork, "checkout", "-q", "HEAD", "--", ".")
    ok(fork, "verify")
    ok(fork, "run", "toy_direct")
    ok(fork, "verify")
    result = harness(fork, "verify", "--anchor", str(saved))
    assert result.code == 3
    assert "by the expected head" in result.err or "head.json" in result.err
    shutil.rmtree(direct / "runs")
    shutil.copytree(fork / "runs", direct / "runs")
    result = harness(direct, "verify")
    assert result.code == 3
    assert "by ledger record" in result.err
