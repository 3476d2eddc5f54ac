"""The journal refuses what can't be: repeated keys, gaps, other plans."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.plan.digest import plan_digest
from harness.run.interrupts import Interrupts
from harness.run.journal import Journal, _scored_visit
from harness.run.state import RunState
from harness.run.supervisor import execute
from harness.store.canonical import Json
from harness.store.clock import CLOCK
from harness.store.errors import ChangedError
from harness.store.framed import bodies, frame
from harness.store.paths import RunPaths
from tests.run.bench import context_of, journal, kinds, new_run, plan_of, two_arms
from tests.run.inline import inline

QUICK = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 2}


def open_journal(folder: Path) -> Journal:
    return Journal(RunPaths(folder), CLOCK, Interrupts())


def visit(block: int, attempt: int = 1) -> Json:
    key = {"block": block, "arm": "pristine", "visit": 1, "attempt": attempt}
    return {"kind": "visit", "phase": "scored", "key": key, "start": 1}


def trial(block: int, item: str) -> Json:
    key = {"item": item, "arm": "pristine", "visit": 1, "attempt": 1}
    return {"kind": "trial", "phase": "scored", "key": key, "block": block, "start": 1}


def test_a_key_is_recorded_once_whatever_the_attempt(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        log.append(trial(0, "a"), visit(0))
        with pytest.raises(ChangedError, match="repeats key"):
            log.append(visit(0, attempt=2))
    assert len(journal(RunPaths(tmp_path))) == 2


def test_a_repeated_key_on_disk_is_refused(tmp_path: Path) -> None:
    records = [{**trial(0, "a"), "seq": 0}, {**visit(0), "seq": 1}, {**visit(0), "seq": 2}]
    RunPaths(tmp_path).journal.write_bytes(b"".join(map(frame, records)))
    with pytest.raises(ChangedError, match="record 3 repeats key"):
        open_journal(tmp_path)


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChangedError, match="record 1 has seq 1, expected 0"):
        RunState().apply({**visit(0), "seq": 1})


def test_a_record_without_its_fields_is_refused() -> None:
    with pytest.raises(ChangedError, match="record 1 lacks 'key'"):
        RunState().apply({"kind": "visit", "seq": 0})


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_visit_is_there_with_all_its_trials_or_not_at_all(tmp_path: Path, cut: int) -> None:
    with open_journal(tmp_path) as log:
        log.append(trial(0, "a"), trial(0, "b"), visit(0))
    whole = RunPaths(tmp_path).journal.read_bytes()
    with open_journal(tmp_path) as log:
        log.append(trial(1, "c"), trial(1, "d"), visit(1))
    path = RunPaths(tmp_path).journal
    path.write_bytes(path.read_bytes()[:-cut])
    torn = path.read_bytes()[len(whole) :]
    with open_journal(tmp_path) as log:
        assert log.torn_bytes == len(torn)
        assert log.state.records == 3
    assert path.read_bytes() == whole
    assert (tmp_path / "journal.log.torn.1").read_bytes() == torn


def test_a_journal_that_is_skimmed_gives_the_state_of_one_that_is_read(tmp_path: Path) -> None:
    """Scored visits are not read whole when a run resumes; the state is the same to a bit."""
    arms = two_arms(error_items=["item-3"], cache_survives_reset=True, warm_cache_speedup=2.0)
    context = new_run(tmp_path, plan_of(arms, {"aa_blocks": 0, "blocks": 6}), start_worker=inline)
    execute(context)
    records = journal(context.paths)
    for place, one in enumerate(kinds(records, "visit")):
        clock = {"cpu_mhz": 900.5 + place, "gpu_sm_mhz": 1000 + place * 7 % 5} if place % 3 else {}
        one["load"] = {"load_average": 0.5, "samples": 3, **clock}
        if place % 5 == 0:
            one["error"] = '"key":{"arm":"x","attempt":1,"block":9,"visit":9},"kind":"visit"'
    context.paths.journal.write_bytes(b"".join(map(frame, records)))
    skims = [one for one in bodies(context.paths.journal) if _scored_visit(one)]
    assert len(skims) == len(kinds(records, "visit", phase="scored")) == 24
    read = RunState()
    for record in records:
        read.apply(record)
    with open_journal(context.paths.root) as log:
        skimmed = log.state
    trials = {key for key in read.keys if key[0] == "trial"}
    assert trials
    assert skimmed.keys == read.keys - trials
    skimmed.keys = read.keys
    assert vars(skimmed) == vars(read)
    assert set(read.clocks) == {"cpu_mhz", "gpu_sm_mhz"}
    assert any(block.void for block in read.blocks.values())


@pytest.mark.parametrize("seq", [1, 5])
def test_a_trial_out_of_sequence_is_refused(tmp_path: Path, seq: int) -> None:
    given = zip(
        (trial(0, "a"), trial(0, "b"), trial(0, "c"), visit(0)), (0, seq, 2, 3), strict=True
    )
    records = [{**record, "seq": number} for record, number in given]
    RunPaths(tmp_path).journal.write_bytes(b"".join(map(frame, records)))
    if seq == 1:
        with open_journal(tmp_path) as log:
            assert log.state.records == 4
    else:
        with pytest.raises(ChangedError, match=f"record 2 has seq {seq}, expected 1"):
            open_journal(tmp_path)


@pytest.mark.parametrize("body", [b'{"block":0,"kind":"trial"', b"\xff", b'{"arm":"a","arm":"b"}'])
def test_a_checksummed_record_that_is_no_strict_json_is_refused(
    tmp_path: Path, body: bytes
) -> None:
    check = hashlib.sha256(body).hexdigest()[:16].encode()
    RunPaths(tmp_path).journal.write_bytes(b"%08x %b %b\n" % (len(body), check, body))
    with pytest.raises(ChangedError, match=r"record 1 is not strict JSON"):
        open_journal(tmp_path)


def test_an_altered_record_is_refused(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    execute(context)
    data = context.paths.journal.read_bytes()
    context.paths.journal.write_bytes(data.replace(b'"decode_ns":16', b'"decode_ns":15', 1))
    with pytest.raises(ChangedError, match="fails its checksum"):
        execute(context)


def test_another_plan_does_not_continue_a_run(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    other = plan_of(schedule={**QUICK, "blocks": 3})
    assert plan_digest(other) != plan_digest(context.plan)
    with pytest.raises(ChangedError, match="started with plan digest"):
        execute(context_of(context.project, other, context.paths))


def test_only_missing_visits_are_run(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule={**QUICK, "launches_per_arm": 2}))
    execute(context)
    records = journal(context.paths)
    last = max(n for n, r in enumerate(records) if r["kind"] == "block" and r["event"] == "started")
    context.paths.journal.write_bytes(b"".join(map(frame, records[:last])))
    execute(context)
    again = journal(context.paths)
    assert again[:last] == records[:last]
    assert len(kinds(again, "visit", phase="scored")) == 8
    assert {v["key"]["block"] for v in kinds(again[last:], "visit", phase="scored")} == {1}
    assert {r["launch"] for r in kinds(again[last:], "launch", event="ready")} == {1}


def test_a_block_that_was_begun_before_a_stop_is_not_measured_again(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    execute(context)
    records = journal(context.paths)
    visits = [n for n, r in enumerate(records) if r["kind"] == "visit" and r["phase"] == "scored"]
    context.paths.journal.write_bytes(b"".join(map(frame, records[: visits[0] + 1])))
    outcome = execute(context)
    assert (outcome.interrupted, outcome.spare_used) == (1, 1)
    again = kinds(journal(context.paths), "visit", phase="scored")
    first_block = [(v["arm"], v["timed"]) for v in again if v["key"]["block"] == 0]
    assert sorted(timed for _, timed in first_block) == [False, True]
    assert {arm for arm, _ in first_block} == {"pristine", "patched"}
