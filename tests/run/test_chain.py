"""The whole chain on the fake engine."""

from __future__ import annotations

from pathlib import Path

from harness.plan.order import order_table
from harness.prereg.runs import read_seal
from harness.prereg.schedule import check_schedule
from harness.run.context import Progress
from harness.run.seal import seal
from harness.run.status import status
from harness.run.supervisor import execute
from tests.run.bench import journal, kinds, new_run, plan_of, real_run, seal_run


def test_a_plan_runs_from_start_to_seal(tmp_path: Path) -> None:
    told: list[Progress] = []
    context = real_run(tmp_path, plan_of(), progress=told.append)
    outcome = execute(context)
    records = journal(context.paths)

    assert (outcome.planned, outcome.finished, outcome.interrupted, outcome.void) == (6, 6, 0, 0)
    assert outcome.timing_void is None
    assert outcome.aa is not None
    assert outcome.aa["ok"] is True
    visits = kinds(records, "visit", phase="scored")
    ordered = [
        (v.block, v.arm, v.visit, v.position, v.launch)
        for block in context.order.planned
        for v in block.visits
    ]
    found = [
        (v["key"]["block"], v["key"]["arm"], v["key"]["visit"], v["position"], v["launch"])
        for v in visits
    ]
    assert found == ordered
    assert len(kinds(records, "trial", phase="scored")) == 2 * len(visits)
    assert len(kinds(records, "visit", phase="aa")) == 2 * 4
    assert {v["key"]["arm"] for v in kinds(records, "visit", phase="aa")} == {"aa_1", "aa_2"}
    assert [record["seq"] for record in records] == list(range(len(records)))
    assert told[-1].done == told[-1].total == 2 * 4 + 6 * 4
    assert [p.done for p in told] == sorted(p.done for p in told)

    sealed = seal_run(context.paths)
    assert sealed["records"]["visits"] == len(kinds(records, "visit"))
    assert read_seal(context.project, context.paths)[0].digest == sealed["digest"]
    assert check_schedule("journal.log", records, context.order, None) == []
    assert seal_run(context.paths) == sealed
    assert status(context.paths).word == "sealed"


def test_times_are_the_virtual_ones_and_answers_are_scored(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule={"aa_blocks": 0}))
    execute(context)
    visits = kinds(journal(context.paths), "visit", phase="scored")
    decode = {arm: {v["timing"]["decode_ns"] for v in visits if v["arm"] == arm}
              for arm in ("pristine", "patched")}  # fmt: skip
    assert decode == {"pristine": {16_000_000}, "patched": {8_000_000}}
    trials = kinds(journal(context.paths), "trial", phase="scored")
    assert {t["score"]["status"] for t in trials} == {"right"}
    by_item: dict[str, set[tuple[int, ...]]] = {}
    for trial in trials:
        by_item.setdefault(trial["key"]["item"], set()).add(tuple(trial["token_ids"]))
    assert all(len(ids) == 1 for ids in by_item.values())


def test_every_launch_has_its_own_proven_processes(tmp_path: Path) -> None:
    context = real_run(tmp_path, plan_of())
    execute(context)
    records = journal(context.paths)
    ready = kinds(records, "launch", event="ready")
    assert len(ready) == len(kinds(records, "launch", event="closed")) == 2 + 2 * 3
    assert {(r["worker"], r["launch"]) for r in ready if r["worker"] == "patched"} == {
        ("patched", 0), ("patched", 1), ("patched", 2),
    }  # fmt: skip
    assert all(r["info"]["backend"] == "fake" for r in ready)
    warm = kinds(records, "visit", phase="warmup")
    assert len(warm) == len(ready)
    assert all(not v["timed"] for v in warm)
    assert all(t["score"] is None for t in kinds(records, "trial", phase="warmup"))
    assert {t["key"]["item"].split("-")[0] for t in kinds(records, "trial", phase="warmup")} == {
        "explore"
    }


def test_exclusive_residency_starts_anew_for_every_visit(tmp_path: Path) -> None:
    schedule = {"residency": "exclusive", "blocks": 2, "launches_per_arm": 1, "aa_blocks": 0}
    context = real_run(tmp_path, plan_of(schedule=schedule))
    execute(context)
    visits = kinds(journal(context.paths), "visit", phase="scored")
    starts = [(v["worker"], v["start"]) for v in visits]
    assert len(set(starts)) == len(starts) == 8


def test_three_arms_in_one_block(tmp_path: Path) -> None:
    arms = {
        "pristine": {"role": "pristine", "backend": "fake"},
        "patched": {"role": "patched", "backend": "fake", "options": {"chunk": 4}},
        "shallow": {"role": "control", "backend": "fake", "options": {"wrong_answer_share": 1.0}},
    }
    context = new_run(tmp_path, plan_of(arms))
    execute(context)
    trials = kinds(journal(context.paths), "trial", phase="scored")
    words = {t["score"]["status"] for t in trials if t["key"]["arm"] == "shallow"}
    assert words == {"wrong"}
    drafted = [t["counters"] for t in trials if t["key"]["arm"] == "patched"]
    assert drafted[0] == {"passes": 2, "drafted": 6, "accepted": 6}


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of())
    first = execute(context)
    before = context.paths.journal.read_bytes()
    assert execute(context) == first
    assert context.paths.journal.read_bytes() == before
    assert seal(context.paths, lock_digest=None, ledger_head=None)["plan"] == "tiny"


def test_the_order_is_the_one_of_the_manifest(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of())
    manifest = context.paths.manifest.read_text("utf-8")
    assert context.order.digest in manifest
    assert order_table(context.plan, "0" * 64, "11").digest != context.order.digest
