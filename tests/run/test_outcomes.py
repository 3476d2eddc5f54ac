"""What happens when visits go wrong: everything is an outcome, a void by rule, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.run.supervisor import execute
from harness.store.errors import NotReadyError, RefusedError, UsageError, VoidError
from tests.run.bench import arm, items, journal, kinds, new_run, plan_of, two_arms
from tests.run.drill import check_finished

QUICK = {"aa_blocks": 0, "launches_per_arm": 1}


def scored(path: Any, name: str) -> list[dict[str, Any]]:
    found = kinds(journal(path), "visit", phase="scored")
    return [visit for visit in found if visit["arm"] == name]


def test_a_hanging_engine_is_a_time_out_that_counts_in_full(tmp_path: Path) -> None:
    plan = plan_of(two_arms(hang_item="item-5"), QUICK, {"block_timeout_s": 0.4})
    context = new_run(tmp_path, plan)
    outcome = execute(context)
    assert (outcome.finished, outcome.interrupted, outcome.deaths) == (6, 0, 2)
    late = [v for v in scored(context.paths, "patched") if v["status"] == "timeout"]
    assert [v["key"]["block"] for v in late] == [2, 2]
    assert all(v["timed"] and v["timing"]["decode_cpu_ns"] >= 400_000_000 for v in late)
    trials = kinds(journal(context.paths), "trial", phase="scored", status="timeout")
    assert len(trials) == 4
    assert {t["score"]["status"] for t in trials} == {"no_answer"}
    check_finished(context.paths, plan)


def test_an_item_that_runs_past_its_limit_counts_with_the_limit(tmp_path: Path) -> None:
    plan = plan_of(two_arms(ms_per_token=1000.0), QUICK, {"item_timeout_s": 1.0})
    context = new_run(tmp_path, plan)
    execute(context)
    visit = scored(context.paths, "patched")[0]
    assert (visit["status"], visit["timing"]["total_ns"]) == ("timeout", 2_000_000_000)


def test_failed_items_are_counted_not_dropped(tmp_path: Path) -> None:
    arms = two_arms(error_items=["item-0"], nan_items=["item-3"], out_of_memory_at=7)
    context = new_run(tmp_path, plan_of(arms, QUICK))
    execute(context)
    trials = kinds(journal(context.paths), "trial", phase="scored")
    patched = [t for t in trials if t["key"]["arm"] == "patched"]
    assert len(patched) == 6 * 2 * 2
    words = [t["status"] for t in patched]
    assert {word: words.count(word) for word in set(words)} == {
        "ok": 18, "error": 2, "nan": 2, "oom": 2,
    }  # fmt: skip
    full = next(v for v in scored(context.paths, "patched") if v["status"] == "oom")
    assert full["error"] == "the virtual device is full"
    assert full["timing"]["total_ns"] > 0


def test_a_death_after_the_first_score_interrupts_the_block_and_calls_a_spare(
    tmp_path: Path,
) -> None:
    plan = plan_of(two_arms(crash_at=7), QUICK)
    context = new_run(tmp_path, plan)
    outcome = execute(context)
    records = journal(context.paths)
    events = [(r["block"], r["event"]) for r in kinds(records, "block")]
    broken = [block for block, event in events if event == "interrupted"]
    assert broken
    assert outcome.interrupted == len(broken)
    assert [r["replaces"] for r in kinds(records, "block", event="spare")] == broken[:2]
    died = kinds(records, "launch", event="died")
    assert {r["reason"] for r in died} == {"signal 9"}
    assert outcome.deaths == len(died)
    untimed = [v for v in kinds(records, "visit", phase="scored") if not v["timed"]]
    assert all(v["key"]["visit"] == 1 and v["key"]["attempt"] > 1 for v in untimed)
    assert {t["recovered"] for t in kinds(records, "trial", phase="scored")} <= {True, False}
    check_finished(context.paths, plan)


def test_interruptions_beyond_the_spares_void_the_timings(tmp_path: Path) -> None:
    arms = two_arms(crash_at=3)
    context = new_run(tmp_path, plan_of(arms, {**QUICK, "spare_blocks": 1}))
    outcome = execute(context)
    assert outcome.spare_used == 1
    assert outcome.timing_void is not None
    assert "no spare left" in outcome.timing_void
    finished = kinds(journal(context.paths), "run", event="finished")[0]
    assert finished["timing_void"] == outcome.timing_void
    assert execute(context) == outcome
    check_finished(context.paths, context.plan)


def test_interruptions_above_the_limit_void_the_timings(tmp_path: Path) -> None:
    plan = plan_of(two_arms(crash_item="item-5"), QUICK, {"interrupted_share": 0.05})
    context = new_run(tmp_path, plan)
    outcome = execute(context)
    failing = kinds(journal(context.paths), "trial", status="error")
    assert {t["key"]["item"] for t in failing} == {"item-4", "item-5"}
    if outcome.interrupted:
        assert outcome.timing_void == "0.167 of the blocks were interrupted, above the limit 0.05"
    check_finished(context.paths, plan)


def test_a_warm_cache_voids_the_block(tmp_path: Path) -> None:
    options: dict[str, Any] = {"warm_cache_speedup": 10.0, "cache_survives_reset": True}
    context = new_run(tmp_path, plan_of(two_arms(**options), QUICK))
    outcome = execute(context)
    assert outcome.void == 6
    reasons = [r["reason"] for r in kinds(journal(context.paths), "block", event="void")]
    assert reasons[0] == "the cache held 2 entries after its reset"
    check_finished(context.paths, context.plan)


def test_a_cache_that_is_reset_gives_no_speed_up(tmp_path: Path) -> None:
    warm: dict[str, Any] = {"warm_cache_speedup": 10.0}
    context = new_run(tmp_path, plan_of(two_arms(warm, speedup=1.0, **warm), QUICK))
    assert execute(context).void == 0
    times = {v["timing"]["decode_ns"] for v in kinds(journal(context.paths), "visit")}
    assert times == {16_000_000}


def test_a_warm_cache_in_the_a_a_phase_voids_the_run(tmp_path: Path) -> None:
    warm = {"warm_cache_speedup": 10.0, "cache_survives_reset": True}
    context = new_run(tmp_path, plan_of(two_arms(warm)))
    with pytest.raises(VoidError, match="A/A block 0: the cache held 2 entries"):
        execute(context)


def test_an_a_a_interval_outside_delta_voids_the_run_for_good(tmp_path: Path) -> None:
    wide = {"estimate": 0.0, "low": -0.4, "high": 0.4}
    context = new_run(tmp_path, plan_of(), aa_interval=lambda _: wide)
    with pytest.raises(VoidError, match=r"A/A: .* is \[-0.4, 0.4\], expected within ±0.1"):
        execute(context)
    with pytest.raises(VoidError):
        execute(context)
    records = journal(context.paths)
    assert kinds(records, "aa")[0]["ok"] is False
    assert len(kinds(records, "run", event="void")) == 1
    assert not kinds(records, "visit", phase="scored")
    assert len(kinds(records, "launch", event="closed")) == 2


def test_drift_does_not_upset_the_a_a_phase(tmp_path: Path) -> None:
    drift: dict[str, Any] = {"drift_per_visit": 0.01}
    context = new_run(tmp_path, plan_of(two_arms(drift, **drift), {"aa_blocks": 4}))
    aa = execute(context).aa
    assert aa is not None
    assert abs(aa["interval"]["estimate"]) < 1e-3


@pytest.mark.parametrize(
    ("arms", "error", "text"),
    [
        (two_arms(claims=False), RefusedError, "arms.patched: is patched but shows no patch"),
        (two_arms({"claims": True}), RefusedError, "arms.pristine: is pristine but shows a patch"),
        (two_arms(inert=True), VoidError, "arms.patched: the patch was not active"),
        (two_arms(colour="red"), NotReadyError, "arms.patched: worker did not start: options.col"),
        (two_arms(crash_at=1), NotReadyError, "arms.patched: 3 workers died in warm-up: signal 9"),
    ],
)
def test_arms_that_cannot_prove_themselves_stop_the_run(
    tmp_path: Path, arms: Any, error: type[Exception], text: str
) -> None:
    context = new_run(tmp_path, plan_of(arms, QUICK))
    with pytest.raises(error, match=text):
        execute(context)


def test_a_fingerprint_is_proof_enough(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(two_arms(claims=False, fingerprint=0.5), QUICK))
    assert execute(context).finished == 6


def test_a_failed_self_test_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    checks = [{"name": "arithmetic", "ok": False, "detail": "2 + 2 = 5"}]
    context = new_run(tmp_path, plan_of(), selftest=lambda: checks)
    with pytest.raises(NotReadyError, match="self-test: arithmetic: 2 \\+ 2 = 5"):
        execute(context)
    assert kinds(journal(context.paths), "selftest")[0]["checks"] == checks


def test_too_few_items_are_refused_before_anything_starts(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(), explore=items("explore", 1))
    with pytest.raises(UsageError, match=r"partitions.explore: found 1, expected at least"):
        execute(context)
    context = new_run(tmp_path, plan_of(), items=items("item", 3))
    with pytest.raises(UsageError, match=r"items: found 3, the order needs 16"):
        execute(context)
    assert not context.paths.journal.exists()


def test_stray_prints_and_foreign_scripts_survive_an_ascii_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("PYTHONUTF8", "0")
    folder = tmp_path / "Prüfung = 1, zwei"
    folder.mkdir()
    arms = two_arms({"stray_print": '{"ok": false} grüße'}, stray_print="数")
    texts = items("item", 16, "¿Cuánto es 数")
    context = new_run(folder, plan_of(arms, QUICK), items=texts)
    assert execute(context).finished == 6
    trials = kinds(journal(context.paths), "trial", phase="scored")
    assert {t["score"]["status"] for t in trials} == {"right"}
    logs = "".join(path.read_text("utf-8") for path in sorted(context.paths.logs.iterdir()))
    assert '{"ok": false} grüße' in logs


def test_an_arm_without_answers_is_scored_as_such(tmp_path: Path) -> None:
    arms = {"pristine": arm("pristine"), "patched": arm("patched", wrong_answer_share=0.5)}
    context = new_run(tmp_path, plan_of(arms, QUICK))
    execute(context)
    trials = kinds(journal(context.paths), "trial", phase="scored")
    words = [t["score"]["status"] for t in trials if t["key"]["arm"] == "patched"]
    assert set(words) == {"right", "wrong"}
