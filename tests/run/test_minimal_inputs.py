"""Seventeen small inputs that other tools stumble over, by number, with what happens here.

11 is tested in tests/tasks/test_answers.py and 16 in tests/cli/test_study.py, where their code is;
`docs/running.md` has the table.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import mcnemar
from harness.plan.compose import compose
from harness.plan.digest import plan_digest
from harness.prereg.schedule import check_schedule
from harness.run.lease import lease
from harness.run.supervisor import execute
from harness.store.canonical import canonical
from harness.store.clock import Clock
from harness.store.digests import digest
from harness.store.errors import (
    ChangedError,
    IncompleteError,
    RefusedError,
    StoppedError,
    StorageError,
    UsageError,
)
from harness.store.files import replace_json
from harness.store.framed import FramedLog, frame, scan
from harness.store.paths import Project
from tests.cli.study import harness, ok, outlines, write_plans
from tests.run.analysed import plan_with, ran, verdict
from tests.run.bench import journal, kinds, new_run, plan_of, seal_run, two_arms
from tests.run.drill import check_finished, gone
from tests.run.inline import inline

QUICK = {"aa_blocks": 0, "launches_per_arm": 1}
EQUAL: dict[str, Any] = {"speedup": 1.0}
NOISE: dict[str, Any] = {"jitter": 0.01}


def arms_alike(**options: Any) -> Any:
    return two_arms(options, **{**EQUAL, **options})


@pytest.mark.parametrize("value", ["123e4567", "0012345", "1234567"])
def test_01_a_number_like_id_is_refused_unless_quoted(tmp_path: Path, value: str) -> None:
    write_plans(tmp_path)
    conf = tmp_path / "conf" / "toy_select.yaml"
    text = conf.read_text()
    conf.write_text(text.replace("seed: toy", f"seed: {value}"))
    result = harness(tmp_path, "run", "conf=toy_select")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "toy_select.yaml" in result.err
    assert "partitions.seed" in result.err
    conf.write_text(text.replace("seed: toy", f'seed: "{value}"'))
    assert compose(Project(tmp_path), "toy_select").plan.partitions.seed == value


@pytest.mark.parametrize(
    "words",
    [
        ["conf=[toy_select,toy_confirm]"], ["conf=toy_select", "conf=toy_confirm"],
        ["conf=../conf/toy_select"], ["conf=toy_select.yaml"], ["conf=toy_select", "~seed"],
        ["conf=toy_select", "+sead=2"],
    ],
)  # fmt: skip
def test_02_two_configurations_at_once_are_refused(tmp_path: Path, words: list[str]) -> None:
    write_plans(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = harness(tmp_path, "run", *words)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("touched", ["conf/toy_select.yaml", "patch.py"])
def test_03_an_edit_during_a_run_stops_it_before_the_next_block(
    tmp_path: Path, touched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plans(tmp_path)
    (tmp_path / "patch.py").write_text("FAST = True\n")
    conf = tmp_path / "conf" / "toy_select.yaml"
    conf.write_text(conf.read_text().replace("  fast: {", "  fast: {patch: [patch.py], "))
    ok(tmp_path, "freeze", "conf=toy_select")
    path = tmp_path / touched
    if touched == "patch.py":
        path = tmp_path / "preregistrations" / "toy_select" / "patch" / touched
    before = path.read_bytes()
    from harness.run import blocks

    settle = blocks._settle

    def edit_after_the_first(session: Any, block: Any) -> None:
        settle(session, block)
        path.write_bytes(before + b"#")

    monkeypatch.setattr(blocks, "_settle", edit_after_the_first)
    stopped = harness(tmp_path, "run", "conf=toy_select")
    assert stopped.code == 3
    assert f"{path.relative_to(tmp_path)}: changed while the run goes on" in stopped.err
    assert "found sha256" in stopped.err
    assert "expected" in stopped.err
    monkeypatch.undo()
    path.write_bytes(before)
    log = next((tmp_path / "runs" / "toy_select").glob("*/journal.log"))
    first = log.read_bytes()
    assert {v["key"]["block"] for v in kinds(scan(log).records, "visit", phase="scored")} == {0}
    with outlines():
        ok(tmp_path, "run", "conf=toy_select")
    assert log.read_bytes().startswith(first)
    assert not kinds(scan(log).records, "block", event="interrupted")


RECORDS = [{"n": place, "text": "Grüße"} for place in range(4)]


@pytest.mark.parametrize("cut", ["20 bytes", "inside a character", "last newline"])
def test_04_a_crash_inside_a_record_loses_that_record_only(tmp_path: Path, cut: str) -> None:
    whole, fourth = b"".join(map(frame, RECORDS[:3])), frame(RECORDS[3])
    keep = {
        "20 bytes": 20, "inside a character": fourth.index("ü".encode()) + 1,
        "last newline": len(fourth) - 1,
    }[cut]  # fmt: skip
    path = tmp_path / "log"
    path.write_bytes(whole + fourth[:keep])
    with FramedLog(path) as log:
        assert scan(path).records == RECORDS[:3]
        log.append(RECORDS[3])
    assert scan(path).records == RECORDS
    assert (tmp_path / "log.torn.1").read_bytes() == fourth[:keep]


def test_05_only_what_is_missing_is_run_and_a_failure_is_not_drawn_again(tmp_path: Path) -> None:
    arms = arms_alike(error_items=["item-2"])
    schedule = {**QUICK, "blocks": 10, "block_items": 1}
    context = new_run(tmp_path, plan_of(arms, schedule), start_worker=inline)
    execute(context)
    records = [r for r in journal(context.paths) if r.get("block") != 2 and _block(r) != 2]
    records = [r for r in records if (r["kind"], r.get("event")) != ("run", "finished")]
    gap = [{**record, "seq": place} for place, record in enumerate(records)]
    context.paths.journal.write_bytes(b"".join(map(frame, gap)))
    execute(context)
    again = journal(context.paths)
    assert again[: len(gap)] == gap
    added = kinds(again[len(gap) :], "trial", phase="scored")
    assert {trial["key"]["item"] for trial in added} == {"item-2"}
    assert {trial["status"] for trial in added} == {"error"}
    assert len(added) == 4
    seal_run(context.paths)


def _block(record: Any) -> object:
    return (record.get("key") or {}).get("block")


def test_06_a_warm_cache_gives_a_ratio_of_one_or_a_void_block(tmp_path: Path) -> None:
    warm: dict[str, Any] = {"warm_cache_speedup": 10.0}
    _, reset = ran(tmp_path / "reset", plan_with(arms_alike(**warm)))
    assert verdict(reset, "P1")["estimate"] == 1.0
    _, kept = ran(tmp_path / "kept", plan_with(arms_alike(cache_survives_reset=True, **warm)))
    assert kept["blocks"]["void"] == 12
    assert verdict(kept, "P1")["word"] == "void"


def test_07_drift_cancels_and_a_transient_is_shown(tmp_path: Path) -> None:
    _, drift = ran(tmp_path / "drift", plan_with(arms_alike(drift_per_visit=0.01 / 4, **NOISE)))
    speed = verdict(drift, "P1")
    assert speed["low"] < 1 < speed["high"]
    _, once = ran(tmp_path / "once", plan_with(arms_alike(warmup_slow=1.1)))
    assert verdict(once, "P1")["estimate"] == 1.0
    _, each = ran(tmp_path / "each", plan_with(arms_alike(warmup_slow=1.1, slow_every=4, **NOISE)))
    effect = each["order"]["first_run"]
    assert 0.05 < effect["low"] < 0.0953 < effect["high"] < 0.12  # log 1.1
    speed = verdict(each, "P1")
    assert speed["low"] < 1 < speed["high"]


def test_08_tokens_are_counted_from_ids_and_unequal_counts_are_said(tmp_path: Path) -> None:
    _, chunks = ran(tmp_path / "chunks", plan_with(two_arms(chunk=2, **EQUAL)))
    rates = {chunks["arms"][arm]["tokens_per_second"] for arm in ("pristine", "patched")}
    assert len(rates) == 1
    assert verdict(chunks, "P2")["estimate"] == 1.0
    for vice in ({"stop_early": 1}, {"merged_tokens": True}):
        _, found = ran(tmp_path / next(iter(vice)), plan_with(two_arms(**vice, **EQUAL)))
        assert verdict(found, "P2")["word"] == "failed"
        assert any("their times are not about the same work" in one for one in found["threats"])


def test_09_an_arm_that_lacks_an_item_is_not_lossless(tmp_path: Path) -> None:
    plan = plan_with(two_arms(drop_item="item-23", **EQUAL))
    context, found = ran(tmp_path, plan)
    lost = kinds(journal(context.paths), "trial", phase="scored", status="error")
    assert {trial["key"]["item"] for trial in lost} == {"item-22", "item-23"}
    agreement = verdict(found, "P2")
    assert (agreement["word"], agreement["n"]) == ("failed", 24)


def test_09_a_journal_that_lacks_its_end_is_incomplete(tmp_path: Path) -> None:
    context, _ = ran(tmp_path, plan_with(arms_alike()))
    records = journal(context.paths)
    last = max(n for n, record in enumerate(records) if record["kind"] == "visit")
    context.paths.journal.write_bytes(b"".join(map(frame, records[:last])))
    with pytest.raises(IncompleteError, match="not finished"):
        seal_run(context.paths)
    done = records[:last] + [{**r, "seq": r["seq"] - 1} for r in records[last + 1 :]]
    findings = check_schedule("journal.log", done, context.order, None)
    assert any("ordered, but not recorded" in one.message or "no visit" in one.message
               for one in findings)  # fmt: skip


def test_10_full_agreement_is_no_certainty(tmp_path: Path) -> None:
    _, found = ran(tmp_path, plan_with(arms_alike(), blocks=25))
    counted = found["arms"]["patched"]["agreement_with_pristine"]
    assert (counted["k"], counted["n"]) == (50, 50)
    assert counted["differ_at_most"] == pytest.approx(1 - 0.05 ** (1 / 50), rel=1e-12)  # 5.8 %
    assert mcnemar(0, 0).p == 1.0
    text = json.dumps(found, allow_nan=False)
    assert "NaN" not in text
    agreement = verdict(found, "P2")
    assert (agreement["confidence_level"], agreement["high"]) == (0.9, 1.0)
    assert 1 - agreement["low"] == pytest.approx(0.0513, abs=1e-4)
    assert verdict(found, "P1")["notes"] == ["degenerate: the clusters show no variation"]


def test_12_a_ghost_is_ended_and_its_port_is_free_for_the_next_arm(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arms = {"pristine": two_arms()["pristine"],
            "patched": two_arms(ghost=True, ghost_port=port)["patched"]}  # fmt: skip
    plan = plan_of(arms, {**QUICK, "blocks": 4, "launches_per_arm": 2})
    context = new_run(tmp_path, plan)
    assert execute(context).finished == 4
    ended = kinds(journal(context.paths), "launch", event="closed", arm="patched")
    assert [record["ghosts"] for record in ended] == [1, 1]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    from harness.run.family import RUN, marked, run_mark

    assert gone(marked(RUN, run_mark(context.paths.logs)))
    check_finished(context.paths, plan)


def test_13_a_full_disk_keeps_the_last_record_whole(tmp_path: Path) -> None:
    """The whole drill is in test_kill.py and, on a real 1 MiB file system, in test_storage.py."""

    class Full:
        fails = False

    context = new_run(tmp_path, plan_of(schedule=QUICK), start_worker=inline)
    real = os.fsync

    def fsync(handle: int) -> None:
        if Full.fails:
            raise OSError(28, "No space left on device")
        real(handle)

    def fill(_: object) -> None:
        Full.fails = len(kinds(journal(context.paths), "visit", phase="scored")) >= 5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(StorageError, match="No space left on device"):
            execute(replace(context, progress=fill))
    kept = context.paths.journal.read_bytes()
    assert scan(context.paths.journal).torn == b""
    execute(context)
    assert context.paths.journal.read_bytes().startswith(kept)
    check_finished(context.paths, context.plan)


def test_14_a_stale_lease_blocks_nobody_and_a_held_one_tells_who_and_how_long(
    tmp_path: Path,
) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK), start_worker=inline)
    paths, week = context.paths, timedelta(days=7)
    before = (datetime.fromisoformat(Clock().utc()) - week).isoformat().replace("+00:00", "Z")
    paths.lease.touch()
    replace_json(paths.owner, {"pid": 7, "host": "elsewhere", "since": before})
    assert execute(context).finished == 6
    began = time.monotonic()
    with lease(paths, Clock(offset_s=-week.total_seconds())):
        owner = json.loads(paths.owner.read_text())
        replace_json(paths.owner, {**owner, "host": "elsewhere"})
        text = r"process \d+ on elsewhere since 2.*7 days, 0:00:0\d ago"
        with pytest.raises(RefusedError, match=text):
            execute(context)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
def test_15_place_and_time_change_nothing(
    tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plans(tmp_path)
    before = plan_digest(compose(Project(tmp_path), "toy_select").plan)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        folder = tmp_path / "été = 1, deux"
        write_plans(folder)
        assert plan_digest(compose(Project(folder), "toy_select").plan) == before
        plan = plan_of(schedule=QUICK)
        context = new_run(folder, plan, start_worker=inline)
        steps = iter((0.0, 7200.0, -7200.0) * 1000)

        class Jumping(Clock):
            def utc(self) -> str:
                return Clock(offset_s=next(steps)).utc()

        execute(replace(context, clock=Jumping()))
    finally:
        monkeypatch.undo()
        time.tzset()
    visits = kinds(journal(context.paths), "visit")
    assert all(v["load"]["roundtrip_ns"] > 0 for v in visits)
    assert all(value >= 0 for v in visits for value in v["timing"].values())
    assert all(v["started_utc"].endswith("Z") for v in visits)
    check_finished(context.paths, plan)


def test_17_values_that_look_alike_are_told_apart_by_type_and_normal_form(tmp_path: Path) -> None:
    assert len({digest(1), digest(True), digest("1")}) == 3
    assert digest(1) == digest(1.0)
    for value in (float("nan"), float("inf"), 2**53):
        with pytest.raises(UsageError):
            canonical(value)
    write_plans(tmp_path)
    conf = tmp_path / "conf" / "toy_select.yaml"
    text = conf.read_text()
    conf.write_text(text.replace("which toy patch", "caf\u00e9"), "utf-8")
    assert compose(Project(tmp_path), "toy_select").plan.title == "caf\u00e9"
    conf.write_text(text.replace("which toy patch", "cafe\u0301"), "utf-8")
    with pytest.raises(UsageError, match=r"line 5: decomposed letters"):
        compose(Project(tmp_path), "toy_select")
    for value in ("1.0", "true", "'1'"):
        conf.write_text(text.replace("max_tokens: 32", f"max_tokens: {value}"))
        with pytest.raises(UsageError, match=r"task\.max_tokens"):
            compose(Project(tmp_path), "toy_select")


def test_a_stop_between_two_blocks_interrupts_nothing(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK), start_worker=inline)

    def stop() -> None:
        if kinds(journal(context.paths), "block", event="finished"):
            raise StoppedError("enough")

    with pytest.raises(StoppedError):
        execute(replace(context, unchanged=stop))
    assert execute(context).interrupted == 0


def test_a_frozen_file_that_vanishes_is_named(tmp_path: Path) -> None:
    from harness.prereg.lock import read_lock
    from harness.run.frozen import frozen_files

    write_plans(tmp_path)
    ok(tmp_path, "freeze", "conf=toy_select")
    project = Project(tmp_path)
    check = frozen_files(project, read_lock(project, "toy_select"))
    check()
    (tmp_path / "conf" / "toy_select.yaml").unlink()
    with pytest.raises(ChangedError, match=r"conf/toy_select\.yaml: changed while the run goes on"):
        check()
