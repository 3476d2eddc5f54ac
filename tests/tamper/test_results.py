"""T21–T23 and T26–T28: results, partitions and rules, through the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.store.errors import StoppedError
from tests.cli.study import CONFIRM, SELECT, harness, ok, write_plans
from tests.tamper import hands
from tests.tamper.plans import DIRECT, EXPLORE, write

Records = list[dict[str, Any]]


def scored(records: Records, kind: str) -> Records:
    return [one for one in records if one["kind"] == kind and one.get("phase") == "scored"]


def test_t21_an_edited_result_with_and_without_its_table(study: Path) -> None:
    run = hands.run_of(study)
    journal, seal = (run / "journal.log").read_bytes(), (run / "seal.json").read_bytes()
    (run / "journal.log").write_bytes(journal.replace(b'"status":"ok"', b'"status":"no"', 1))
    result = harness(study, "verify")
    assert result.code == 3
    assert "journal.log" in result.err
    (run / "journal.log").write_bytes(journal)

    def faster(records: Records) -> Records:
        scored(records, "visit")[0]["timing"]["decode_ns"] += 1
        return records

    hands.reseal(run, faster)
    result = harness(study, "verify")
    assert result.code == 3
    assert "by ledger record" in result.err
    (run / "journal.log").write_bytes(journal)
    (run / "seal.json").write_bytes(seal)
    ok(study, "verify")


def test_t21_swapped_runs_and_swapped_arms(study: Path) -> None:
    one, other = hands.run_of(study), hands.run_of(study, "toy_select")
    shutil.move(one, study / "kept")
    shutil.copytree(other, one)
    assert harness(study, "verify").code == 3
    shutil.rmtree(one)
    shutil.move(study / "kept", one)

    def swap(records: Records) -> Records:
        names = {"pristine": "patched", "patched": "pristine"}
        for record in scored(records, "trial") + scored(records, "visit"):
            record["key"]["arm"] = names[record["key"]["arm"]]
        return records

    hands.reseal(one, swap)
    assert harness(study, "verify").code == 3


@pytest.mark.parametrize(
    "word", ["schedule.blocks=11", "partitions.seed=other", "schedule.design=williams"]
)
def test_t22_another_order_or_seed_is_refused_when_asked_for(study: Path, word: str) -> None:
    before = sorted(study.rglob("*"))
    result = harness(study, "run", "conf=toy_confirm", word)
    assert result.code == 5
    assert "takes no overrides" in result.err
    assert sorted(study.rglob("*")) == before


def _other_order(records: Records) -> Records:
    first, second = scored(records, "visit")[:2]
    first["position"], second["position"] = second["position"], first["position"]
    return records


def _dropped(records: Records) -> Records:
    gone = scored(records, "trial")[0]
    return _numbered([one for one in records if one is not gone])


def _twice(records: Records) -> Records:
    first = scored(records, "trial")[0]
    place = records.index(first)
    return _numbered([*records[:place], {**first}, *records[place:]])


def _numbered(records: Records) -> Records:
    for number, one in enumerate(records):
        one["seq"] = number
    return records


@pytest.mark.parametrize(
    ("change", "code", "names"),
    [(_other_order, 3, "block 0"), (_dropped, (3, 4), "no trial of"), (_twice, 3, "was run twice")],
)
def test_t22_it_is_found_where_it_was_done_by_editing(
    study: Path, change: Callable[[Records], Records], code: Any, names: str
) -> None:
    run = hands.run_of(study)
    hands.reseal(run, change)
    result = harness(study, "verify")
    assert result.code == 3
    _accept(study)
    result = harness(study, "verify")
    assert result.code in (code if isinstance(code, tuple) else (code,))
    assert names in result.err


def _accept(study: Path) -> None:
    """Let the ledger hold the seal as it is now, its counts included."""
    for n in range(1, len(hands.records(study)) + 1):
        value = hands.load(hands.record(study, n))
        if value["kind"] == "run.sealed":
            seal = study / "runs" / value["body"]["plan"] / value["body"]["run_id"] / "seal.json"
            value["body"]["records"] = hands.load(seal)["records"]
            hands.store(hands.record(study, n), value)
    hands.rewrite_all(study)


def test_t22_another_seed_is_found(study: Path) -> None:
    run = hands.run_of(study)
    hands.edit(run / "run.json", lambda one: one.update(nonce="0" * 64))
    hands.reseal(run, lambda records: records)
    result = harness(study, "verify")
    assert result.code == 3
    _accept(study)
    result = harness(study, "verify")
    assert result.code == 3
    assert "nonce" in result.err


def test_t23_an_item_in_two_partitions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.cli import wiring

    write_plans(tmp_path)
    honest = wiring.draw_items

    def mixed(plan: Any, bucket: str, key: str, count: int) -> Any:
        drawn = honest(plan, bucket, key, count)
        if bucket == "select":
            return (*honest(plan, "explore", "0" * 64, 1), *drawn[1:])
        return honest(plan, bucket, "0" * 64, count)

    monkeypatch.setattr(wiring, "draw_items", mixed)
    result = harness(tmp_path, "freeze", "conf=toy_select")
    assert result.code == 2
    assert "is also in explore" in result.err
    assert not hands.lock_of(tmp_path, "toy_select").exists()


def test_t23_a_selection_never_reads_a_confirm_result(study: Path) -> None:
    text = CONFIRM.replace("from: toy_select", "from: toy_confirm").replace(
        "[{arm: fast}, {arm: wild}]", "[{arm: patched}]"
    )
    write(study, "toy_later", text)
    result = harness(study, "freeze", "conf=toy_later")
    assert result.code == 2
    assert "stage confirm" in result.err


def test_t23_opened_confirm_items_are_recorded_and_never_drawn_again(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands.number_of(study, "result.opened")
    write(study, "toy_later", DIRECT)
    ok(study, "freeze", "conf=toy_later")
    ids = [
        set(hands.load(hands.lock_of(study, name))["partitions"]["confirm"]["ids"])
        for name in ("toy_confirm", "toy_later")
    ]
    assert not ids[0] & ids[1]
    from harness.cli import wiring

    honest = wiring.draw_items
    key = _confirm_key(study)
    monkeypatch.setattr(  # a source that has no other items than those
        wiring,
        "draw_items",
        lambda plan, bucket, own, count: honest(
            plan, bucket, key if bucket == "confirm" else own, count
        ),
    )
    write(study, "toy_third", DIRECT)
    result = harness(study, "freeze", "conf=toy_third")
    assert result.code == 5
    assert "were opened before" in result.err
    assert "toy_confirm" in result.err
    assert not hands.lock_of(study, "toy_third").exists()


def _confirm_key(study: Path) -> str:
    from harness.prereg.lock import read_lock
    from harness.prereg.partitions import partition_key
    from harness.store.paths import Project

    lock = read_lock(Project(study), "toy_confirm")
    return partition_key(lock.typed_plan(), "confirm", lock.plan_digest, lock.nonce)


@pytest.mark.parametrize("value", ["0.95", True, None])
def test_t26_a_metric_that_is_no_number_never_passes(study: Path, value: Any) -> None:
    run = hands.run_of(study)

    def odd(records: Records) -> Records:
        timing = scored(records, "visit")[0]["timing"]
        if value is None:
            del timing["decode_ns"]
        else:
            timing["decode_ns"] = value
        return records

    hands.reseal(run, odd)
    _accept(study)
    for words in (("verify",), ("analyze", "toy_confirm"), ("report", "toy_confirm")):
        result = harness(study, *words)
        assert result.code in (3, 4), (words, result)
        assert hands.one_line(result.err)
        assert "held" not in result.out


def test_t26_failed_answers_are_counted_with_their_cause(tmp_path: Path) -> None:
    from harness.cli.wiring import scored_items
    from harness.plan.compose import compose
    from harness.store.paths import Project

    write(tmp_path, "look", EXPLORE)
    items, _ = scored_items(compose(Project(tmp_path), "look").plan, "")
    odd = f"speedup: 1.6, nan_items: [{items[0].id}], error_items: [{items[3].id}]"
    write(tmp_path, "look", EXPLORE.replace("speedup: 1.6", odd))
    found = json.loads(ok(tmp_path, "run", "look", "--json").out)["analysis"]
    assert found["arms"]["patched"]["status"]["nan"] == 1
    assert found["arms"]["patched"]["status"]["error"] == 1
    agreement = next(one for one in found["verdicts"] if one["id"] == "P3")
    assert agreement["n"] == 24


def test_t27_an_unscored_pass_is_never_eligible(study: Path) -> None:
    run = hands.run_of(study)

    def promoted(records: Records) -> Records:
        one = next(r for r in records if r["kind"] == "visit" and r["phase"] != "scored")
        one["phase"] = "scored"
        return records

    hands.reseal(run, promoted)
    _accept(study)
    result = harness(study, "verify")
    assert result.code == 3
    assert "not in the frozen order" in result.err or "recorded twice" in result.err


def test_t27_a_number_edited_in_a_report_is_named(study: Path) -> None:
    page = hands.run_of(study) / "report" / "numbers.json"
    ok(study, "report", "toy_confirm", "--check")
    hands.swap_text(page, "1.6", "9.6")
    result = harness(study, "report", "toy_confirm", "--check")
    assert result.code == 3
    assert "numbers.json" in result.err
    assert "9.6" in result.err


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("region: [1.0, null]", "region: [0.0, null]", "can never be failed"),
        ("region: [1.0, null]", "region: [null, null]", "has no end"),
        ("region: [1.0, null]", "region: [0.9999, 1.0001]\n    margin_reason: x", "never be held"),
        ("region: [1.0, null]", "region: [0.9, null]", "margin_reason"),
        ("confidence: 0.9", "confidence: 0.9\n    level: 0.5", "a level is never typed"),
        ("min_clusters: 6", "min_clusters: 60", "exceeds the 8 planned"),
        ("min_clusters: 6", "min_clusters: 6\n    informed_by: toy_select", "fitted on a batch"),
    ],
)
def test_t28_a_rule_that_cannot_turn_is_refused(
    tmp_path: Path, old: str, new: str, names: str
) -> None:
    assert old in SELECT
    write(tmp_path, "toy_select", SELECT.replace(old, new))
    result = harness(tmp_path, "freeze", "conf=toy_select")
    assert result.code == 2
    assert names in result.err
    assert "S1" in result.err or "predictions.0" in result.err
    assert not hands.lock_of(tmp_path, "toy_select").exists()


def test_t28_a_region_from_another_plan_with_the_same_items_is_refused(study: Path) -> None:
    text = SELECT.replace(
        "min_clusters: 6", "min_clusters: 6\n    informed_by: what toy_select saw"
    )
    write(study, "toy_again", text)
    result = harness(study, "freeze", "conf=toy_again")
    assert result.code == 2
    assert "toy_select scored 16 of the items" in result.err


def test_t28_weak_claims_are_flagged(study: Path) -> None:
    write(study, "toy_later", DIRECT)
    out = ok(study, "freeze", "--dry-run", "conf=toy_later").out
    assert "flag: conf/toy_later.yaml: predictions.P3" in out
    assert "without a control prediction" in out


def test_t26_blocks_of_two_nodes_are_not_pooled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped on one machine is not resumed on another."""
    write_plans(tmp_path)
    ok(tmp_path, "freeze", "conf=toy_select")
    with monkeypatch.context() as patched:
        patched.setattr("harness.run.supervisor.run_blocks", _stopped)
        assert harness(tmp_path, "run", "conf=toy_select").code == 130
    with monkeypatch.context() as patched:
        patched.setattr("harness.run.environment._own_id", lambda: "another machine")
        refused = harness(tmp_path, "run", "conf=toy_select")
    assert refused.code == 5
    assert "another machine" in refused.err
    ok(tmp_path, "run", "conf=toy_select")


def _stopped(session: object) -> None:
    raise StoppedError("stopped")
