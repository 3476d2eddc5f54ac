"""The journal refuses what can't be: repeated keys, gaps, other plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan.digest import plan_digest
from harness.run.interrupts import Interrupts
from harness.run.journal import Journal
from harness.run.state import RunState
from harness.run.supervisor import execute
from harness.store.canonical import Json
from harness.store.clock import CLOCK
from harness.store.errors import ChangedError
from harness.store.framed import frame
from harness.store.paths import RunPaths
from tests.run.bench import context_of, journal, kinds, new_run, plan_of

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
