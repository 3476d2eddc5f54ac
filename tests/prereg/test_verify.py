"""Verification finds every change and every gap, names the file, and is silent otherwise."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.ledger.chain import Chain, Head
from harness.ledger.records import Counts, RunSealed, RunStarted, append, start_registered
from harness.prereg import tables
from harness.prereg.environment import environment
from harness.prereg.findings import Finding, exit_code
from harness.prereg.lock import Environment, lock_digest, read_lock
from harness.prereg.schedule import counts
from harness.prereg.verify import Level, verify_lock, verify_project
from harness.store.canonical import Json, canonical, parse
from harness.store.clock import Clock
from harness.store.digests import digest, file_table, sha256_bytes
from harness.store.errors import Exit, UsageError
from harness.store.files import replace_json
from harness.store.framed import read_framed
from harness.store.paths import Project
from tests.prereg import study as build


def names(findings: list[Finding]) -> str:
    return "\n".join(finding.message for finding in findings)


def load(path: Path) -> Any:
    return parse(path.read_bytes())


def test_a_finished_study_is_clean(study: Project) -> None:
    assert verify_project(study) == []
    assert verify_project(study, recompute=build.analysis) == []
    assert exit_code([]) == Exit.DONE
    for name in (build.SELECT, build.CONFIRM):
        assert verify_lock(study, name, device_class="cpu: test") == []


def covered(study: Project) -> list[Path]:
    """Every file of the study in which no byte may change."""
    folders = ("conf", "models", "preregistrations", "ledgers", "runs")
    files = [p for folder in folders for p in (study.root / folder).rglob("*") if p.is_file()]
    derived = ("analysis.json", ".gitattributes")
    return [path for path in sorted(files) if path.name not in derived]


def test_any_byte_changed_anywhere_is_found_and_its_file_named(study: Project) -> None:
    files = covered(study)
    assert len(files) > 20
    choose = random.Random(7)
    flips: list[tuple[Path, int | None]] = [(path, None) for path in files for _ in range(3)]
    flips += [(path, place) for path in files for place in (0, -1)]
    assert len(flips) > 100
    for path, fixed in flips:
        whole = path.read_bytes()
        place = choose.randrange(len(whole)) if fixed is None else fixed % len(whole)
        data = bytearray(whole)
        data[place] ^= choose.randrange(1, 256)
        path.write_bytes(data)
        found = verify_project(study)
        where = f"{path.relative_to(study.root)} at byte {place}"
        assert exit_code(found) == Exit.CHANGED, where
        assert study.relative(path) in names(found), where
        path.write_bytes(whole)
    assert verify_project(study) == []


def test_a_changed_byte_is_found_from_the_lock_alone(study: Project) -> None:
    path = study.conf / f"{build.CONFIRM}.yaml"
    path.write_bytes(path.read_bytes().replace(b"fast", b"slow"))
    levels: tuple[Level, ...] = ("registered", "replication")
    for level in levels:
        found = verify_lock(study, build.CONFIRM, level)
        assert exit_code(found) == Exit.CHANGED
        assert found[0].path == "conf/confirm_raven.yaml"
    found = verify_lock(study, build.CONFIRM, "archive")
    assert [finding.code for finding in found] == [Exit.DONE]


def test_line_endings_are_named(study: Project) -> None:
    for path in (study.conf / f"{build.CONFIRM}.yaml", study.lock(build.SELECT)):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert names(verify_project(study)).count("line endings") == 2


# T02, T03 — whoever also rewrites the hashes


def edit_lock(study: Project, change: Callable[[Json], None]) -> None:
    path = study.lock(build.CONFIRM)
    value = load(path)
    change(value)
    path.write_bytes(canonical(value) + b"\n")


def edit_conf(study: Project) -> None:
    """Change a locked file, and the lock's table to match."""
    path = study.conf / f"{build.CONFIRM}.yaml"
    path.write_bytes(b"title: 'another'\n")
    table = file_table(study.root, [path])
    edit_lock(study, lambda value: value["files"]["conf"].update(table))


def relink(study: Project, change: Callable[[Json], None]) -> None:
    """Rewrite a whole ledger so that it links again, with its head file."""
    chain = Chain(study.ledger("raven"))
    prev = "0" * 64
    for n in range(1, len(list(chain.folder.glob("*.json"))) + 1):
        value = load(chain.path(n))
        change(value)
        value["prev"] = prev
        chain.path(n).write_bytes(canonical(value) + b"\n")
        prev = sha256_bytes(chain.path(n).read_bytes())
    replace_json(chain.head_file, {"count": n, "digest": prev})


def test_a_lock_rewritten_to_match_disagrees_with_the_ledger(study: Project) -> None:
    edit_conf(study)
    found = verify_project(study)
    assert exit_code(found) == Exit.CHANGED
    assert "by ledger record" in names(found)


def test_a_study_rewritten_as_a_whole_is_found_by_a_head_kept_outside(project: Project) -> None:
    build.freeze_plan(project, build.simple(build.CONFIRM))
    head = Chain(project.ledger("raven")).head
    build.freeze_plan(project, build.simple("confirm_z"))
    edit_conf(project)
    old, new = load(Chain(project.ledger("raven")).path(1)), lock_digest(project, build.CONFIRM)

    def change(value: Json) -> None:
        if value["body"]["lock_digest"] == old["body"]["lock_digest"]:
            value["body"]["lock_digest"] = new

    relink(project, change)
    path = project.lock("confirm_z")
    value = load(path)
    value["ledger_head"] = {"count": 1, "digest": sha256_bytes(
        Chain(project.ledger("raven")).path(1).read_bytes())}  # fmt: skip
    path.write_bytes(canonical(value) + b"\n")
    last = lock_digest(project, "confirm_z")

    def change_last(value: Json) -> None:
        if value["body"]["plan"] == "confirm_z":
            value["body"]["lock_digest"] = last

    relink(project, change_last)
    assert verify_project(project) == []
    found = verify_project(project, heads={"raven": head})
    assert exit_code(found) == Exit.CHANGED
    assert "record 1: rewritten" in names(found)


def test_an_older_head_kept_outside_is_enough(study: Project) -> None:
    records = Chain(study.ledger("raven")).records()
    for record in records:
        assert verify_project(study, heads={"raven": Head(record.n, record.digest)}) == []
    found = verify_project(study, heads={"raven": Head(99, records[-1].digest)})
    assert exit_code(found) == Exit.CHANGED


def test_a_rewritten_ledger_disagrees_with_the_heads_in_locks_and_seals(study: Project) -> None:
    def change(value: Json) -> None:
        if value["n"] == 2:
            value["at"] = "2020-01-01T00:00:00.000000Z"

    relink(study, change)
    found = names(verify_project(study))
    assert "preregistrations/confirm_raven/lock.json" in found
    assert "runs/confirm_raven/0001-bbbbbbbbbbbb/seal.json" in found
    assert "rewritten" in found


def test_figures_of_a_selection_must_rank_as_they_were_ranked(study: Project) -> None:
    edit_lock(study, lambda value: value["selection"]["figures"][0]["metrics"].update(match=1.0))
    found = names(verify_lock(study, build.CONFIRM))
    assert "the frozen rule ranks them in another way" in found


# T17 — the ledger itself


@pytest.mark.parametrize("removed", [1, 3, 10])
def test_a_removed_tail_is_found(study: Project, removed: int) -> None:
    chain = Chain(study.ledger("raven"))
    for n in range(11 - removed, 11):
        chain.path(n).unlink()
    assert exit_code(verify_project(study)) == Exit.CHANGED
    chain.head_file.unlink()
    assert exit_code(verify_project(study)) in (Exit.CHANGED, Exit.INCOMPLETE)


def test_a_missing_ledger_is_incomplete_and_never_clean(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    shutil.rmtree(project.root / "ledgers")
    found = verify_project(project)
    assert exit_code(found) == Exit.INCOMPLETE
    assert "ledgers/raven: missing" in names(found)
    assert exit_code(verify_lock(project, "confirm_a")) == Exit.INCOMPLETE


def test_a_removed_start_of_a_run_is_found(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    build.freeze_plan(project, build.simple("confirm_b"))
    Chain(project.ledger("raven")).path(2).unlink()
    assert exit_code(verify_lock(project, "confirm_b")) == Exit.CHANGED


def test_a_stray_temporary_file_is_a_remark(study: Project) -> None:
    (study.ledger("raven") / ".00000011.json.x.tmp").write_bytes(b"half")
    found = verify_project(study)
    assert [finding.remark for finding in found] == [True]
    assert exit_code(found) == Exit.DONE


def test_a_clock_that_went_back_is_named_but_decides_nothing(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    digest_of = lock_digest(project, "confirm_a")
    body = RunStarted(plan="confirm_a", run_id="0001-x", role="registered", lock_digest=digest_of)
    start_registered(Chain(project.ledger("raven")), body, Clock(offset_s=-9e7))
    found = verify_project(project)
    assert any(one.remark and "clock anomaly" in one.message for one in found)


def test_a_run_recorded_before_its_lock_is_found(project: Project) -> None:
    chain = Chain(project.ledger("raven"))
    body = RunStarted(plan="confirm_a", run_id="0001-x", role="registered", lock_digest="1" * 64)
    append(chain, body)
    found = verify_project(project)
    assert exit_code(found) == Exit.CHANGED
    assert "ran before it was frozen" in names(found)


# T24 — a run that is gone or unfinished


def test_a_deleted_registered_run_is_missing(study: Project) -> None:
    shutil.rmtree(study.runs(build.CONFIRM))
    found = verify_project(study)
    assert exit_code(found) == Exit.INCOMPLETE
    assert "0001-bbbbbbbbbbbb: missing, but the ledger holds its start" in names(found)


def test_a_deleted_seal_is_missing(study: Project) -> None:
    study.run(build.CONFIRM, build.RUNS[build.CONFIRM]).seal.unlink()
    assert exit_code(verify_project(study)) == Exit.INCOMPLETE


def test_an_unfinished_run_is_incomplete(project: Project) -> None:
    build.freeze_plan(project, build.simple(build.CONFIRM))
    run = build.start(project, build.CONFIRM)
    found = verify_project(project)
    assert [finding.code for finding in found] == [Exit.INCOMPLETE]
    assert "harness run conf=confirm_raven" in names(found)
    build.write_journal(run, build.journal_records(read_lock(project, build.CONFIRM)))
    replace_json(run.seal, build.seal_value(project, build.CONFIRM, run))
    assert exit_code(verify_project(project)) == Exit.INCOMPLETE
    assert "not in the ledger yet" in names(verify_project(project))


# T25 — code and environment


def test_code_binds_until_the_registered_run_has_started(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.freeze_plan(project, build.simple(build.CONFIRM))
    elsewhere = project.root.parent / "package"
    (elsewhere / "harness/store").mkdir(parents=True)
    (elsewhere / "harness/store/clock.py").write_text("changed = True\n")
    monkeypatch.setattr(tables, "PACKAGE_PARENT", elsewhere)
    found = verify_project(project)
    assert exit_code(found) == Exit.CHANGED
    assert found[0].path == "harness/store/clock.py"
    assert exit_code(verify_lock(project, build.CONFIRM)) == Exit.CHANGED
    assert exit_code(verify_lock(project, build.CONFIRM, "replication")) == Exit.DONE
    build.run_plan(project, build.CONFIRM)
    later = verify_project(project)
    assert [finding.remark for finding in later] == [True]
    assert "harness/store/clock.py" in names(later)


def test_another_environment_stops_the_registered_run_only(project: Project) -> None:
    build.freeze_plan(project, build.simple(build.CONFIRM))
    packages = environment().packages | {"numpy": "0.0.1"}
    other = Environment(python=environment().python, packages=packages)
    found = verify_lock(project, build.CONFIRM, environment=other)
    assert exit_code(found) == Exit.CHANGED
    assert "environment: numpy: found 0.0.1, expected" in names(found)
    again = verify_lock(project, build.CONFIRM, "replication", environment=other)
    assert [finding.remark for finding in again] == [True]


def test_another_device_class_stops_the_registered_run_only(project: Project) -> None:
    build.freeze_plan(project, build.simple(build.CONFIRM))
    found = verify_lock(project, build.CONFIRM, device_class="cuda: 1 × x")
    assert exit_code(found) == Exit.CHANGED
    found = verify_lock(project, build.CONFIRM, "replication", device_class="cuda: 1 × x")
    assert exit_code(found) == Exit.DONE


def test_a_missing_model_file_is_incomplete(study: Project) -> None:
    (study.root / "models/tiny/weights.bin").unlink()
    found = verify_project(study)
    assert exit_code(found) == Exit.INCOMPLETE
    assert "models/tiny/weights.bin" in names(found)


def test_a_link_in_place_of_a_model_file_is_a_change(study: Project) -> None:
    path = study.root / "models/tiny/weights.bin"
    path.rename(path.with_name("other"))
    path.symlink_to("other")
    assert exit_code(verify_project(study)) == Exit.CHANGED


# T21, T22 — records and schedule, edited together with the seal


def reseal(
    study: Project, change: Callable[[list[Json]], list[Json]], tail: bytes = b""
) -> list[Finding]:
    """Edit the journal and make seal and ledger match it, as if the chain had been rebuilt."""
    run = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    build.write_journal(run, change(read_framed(run.journal)))
    run.journal.write_bytes(run.journal.read_bytes() + tail)
    value = load(run.seal)
    before = sha256_bytes(run.seal.read_bytes())
    table = file_table(run.root, [run.manifest, run.journal])
    totals = counts(read_framed(run.journal))
    value |= {"files": table, "digest": digest(table), "records": totals, "ledger_head": None}
    run.seal.write_bytes(canonical(value) + b"\n")
    after = sha256_bytes(run.seal.read_bytes())

    def follow(record: Json) -> None:
        if record["body"].get("seal_digest") == before:
            record["body"]["seal_digest"] = after
            if "records" in record["body"]:
                record["body"]["records"] = totals

    relink(study, follow)
    return verify_project(study)


def visits(records: list[Json]) -> list[int]:
    return [place for place, record in enumerate(records) if record["kind"] == "visit"]


def test_an_edited_record_is_found_with_and_without_its_seal(study: Project) -> None:
    run = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    records = read_framed(run.journal)
    records[2]["token_ids"] = [1, 3]
    build.write_journal(run, records)
    assert "journal.log" in names(verify_project(study))
    value = load(run.seal)
    table = file_table(run.root, [run.manifest, run.journal])
    replace_json(run.seal, value | {"files": table, "digest": digest(table)})
    found = verify_project(study)
    assert exit_code(found) == Exit.CHANGED
    assert "seal.json" in names(found)


def test_an_honest_reseal_is_what_the_schedule_tests_start_from(study: Project) -> None:
    assert reseal(study, lambda records: records) == []


def _another_arm(records: list[Json]) -> list[Json]:
    for record in records:
        if "key" in record:
            record["key"]["arm"] = "ripe" if record["key"]["arm"] == "pristine" else "pristine"
    return records


def _swap_visits(records: list[Json]) -> list[Json]:
    first, second = visits(records)[:2]
    head, one, two = records[:2], records[2 : first + 1], records[first + 1 : second + 1]
    return [*head, *two, *one, *records[second + 1 :]]


def _launch(records: list[Json]) -> list[Json]:
    records[visits(records)[0]]["launch"] += 1
    return records


def _drop_visit(records: list[Json]) -> list[Json]:
    place = visits(records)[3]
    return records[: place - 2] + records[place + 1 :]


def _drop_trial(records: list[Json]) -> list[Json]:
    return records[:2] + records[3:]


def _twice(records: list[Json]) -> list[Json]:
    return [*records[:3], records[2], *records[3:]]


def _visit_twice(records: list[Json]) -> list[Json]:
    place = visits(records)[0]
    again = [dict(record) for record in records[place - 2 : place + 1]]
    for record in again:
        record["key"] = record["key"] | {"attempt": 2}
    return [*records[: place + 1], *again, *records[place + 1 :]]


def _foreign_item(records: list[Json]) -> list[Json]:
    records[2]["key"]["item"] = "confirm-other"
    return records


def _drop_block(records: list[Json]) -> list[Json]:
    kept = [one for one in records if one.get("block", one.get("key", {}).get("block")) != 2]
    return [one for one in kept if not (one["kind"] == "trial" and one["block"] == 2)]


def _spare(records: list[Json]) -> list[Json]:
    for record in records:
        if record["kind"] in ("trial", "block") and record["block"] == 3:
            record["block"] = 4
        if record["kind"] == "visit" and record["key"]["block"] == 3:
            record["key"]["block"] = 4
    return records


def _wrong_number(records: list[Json]) -> list[Json]:
    return [
        record | {"kind": "visiting"} if record["kind"] == "visit" else record for record in records
    ]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (_another_arm, Exit.CHANGED, "position: found"),
        (_swap_visits, Exit.CHANGED, r"block 0: visited in order \[1, 0, 2, 3\]"),
        (_launch, Exit.CHANGED, "launch: found 1, expected 0"),
        (_drop_visit, Exit.INCOMPLETE, "block 0, arm .*, visit 2: ordered, but not recorded"),
        (_drop_trial, Exit.INCOMPLETE, "no trial of confirm-"),
        (_twice, Exit.CHANGED, "was run twice"),
        (_visit_twice, Exit.CHANGED, "recorded twice; a visit is measured once"),
        (_foreign_item, Exit.CHANGED, "confirm-other does not belong to this block"),
        (_drop_block, Exit.INCOMPLETE, "block 2: planned, but never finished"),
        (_spare, Exit.CHANGED, "a spare was visited without replacing a block"),
        (_wrong_number, Exit.CHANGED, "kind 'visiting' is not known"),
    ],
)
def test_another_schedule_is_found(
    study: Project, change: Callable[[list[Json]], list[Json]], code: Exit, message: str
) -> None:
    found = reseal(study, change)
    assert exit_code(found) == code
    assert re.search(message, names(found)), names(found)


def test_an_interrupted_block_may_miss_later_visits(study: Project) -> None:
    def cut(records: list[Json]) -> list[Json]:
        kept = [
            one for one in records
            if one["kind"] not in ("visit", "trial")
            or one.get("block", one["key"].get("block")) != 1
            or one["key"]["visit"] != 2
        ]  # fmt: skip
        end = next(n for n, one in enumerate(kept) if one.get("event") == "finished"
                   and one.get("block") == 1)  # fmt: skip
        note = {"kind": "block", "block": 1, "event": "interrupted", "reason": "killed"}
        return [*kept[:end], note, *kept[end:]]

    assert reseal(study, cut) == []


def test_a_torn_journal_under_a_seal_is_incomplete(study: Project) -> None:
    run = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    found = reseal(study, lambda records: records, tail=run.journal.read_bytes()[:40])
    assert exit_code(found) == Exit.INCOMPLETE
    assert "torn tail" in names(found)


def test_the_manifest_must_be_that_of_the_lock(study: Project) -> None:
    run = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    replace_json(run.manifest, load(run.manifest) | {"nonce": "5" * 64})
    found = reseal(study, lambda records: records)
    assert exit_code(found) == Exit.CHANGED
    assert "run.json: nonce: found" in names(found)


# verdicts


def test_a_kept_analysis_with_other_words_is_found(study: Project) -> None:
    run = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    value = load(run.analysis)
    replace_json(run.analysis, value | {"more": 1})
    assert [finding.remark for finding in verify_project(study)] == [True]
    value["verdicts"][0]["word"] = "failed"
    replace_json(run.analysis, value)
    assert exit_code(verify_project(study)) == Exit.CHANGED
    run.analysis.unlink()
    assert verify_project(study) == []


def test_verdicts_computed_anew_must_be_the_recorded_ones(study: Project) -> None:
    def other(word: str) -> Callable[[Any], Json]:
        verdict = {"id": "P1", "word": word}
        return lambda run: {"verdicts": [verdict]}

    assert exit_code(verify_project(study, recompute=other("failed"))) == Exit.CHANGED
    same = verify_project(study, recompute=other("held"))
    assert same and all(finding.remark for finding in same)


# replications and paths


def test_a_replication_is_checked_against_its_own_chain(study: Project) -> None:
    first = study.run(build.CONFIRM, build.RUNS[build.CONFIRM])
    again = study.run(build.CONFIRM, "0002-cccccccccccc")
    again.root.mkdir()
    shutil.copy(first.journal, again.journal)
    name = "0002-cccccccccccc"
    manifest = load(first.manifest) | {"run_id": name, "role": "replication"}
    locked = manifest["lock_digest"]
    append(
        Chain(again.chain),
        RunStarted(plan=build.CONFIRM, run_id=name, role="replication", lock_digest=locked),
    )
    replace_json(again.manifest, manifest)
    table = file_table(again.root, [again.manifest, again.journal])
    seal = load(first.seal) | {
        "run_id": "0002-cccccccccccc", "files": table, "digest": digest(table),
        "ledger_head": Chain(again.chain).head.json(),
    }  # fmt: skip
    replace_json(again.seal, seal)
    sealed = sha256_bytes(again.seal.read_bytes())
    body = RunSealed(
        plan=build.CONFIRM, run_id="0002-cccccccccccc", seal_digest=sealed,
        records=Counts(**seal["records"]),
    )  # fmt: skip
    append(Chain(again.chain), body)
    assert verify_project(study) == []
    data = again.journal.read_bytes()
    again.journal.write_bytes(data.replace(b"[1,2]", b"[1,3]", 1))
    found = verify_project(study, Path("runs") / build.CONFIRM / "0002-cccccccccccc")
    assert exit_code(found) == Exit.CHANGED
    assert all("0002-cccccccccccc" in finding.path for finding in found)


def test_one_path_is_verified_alone(study: Project) -> None:
    path = study.lock(build.SELECT)
    path.write_bytes(path.read_bytes()[:-2])
    assert verify_project(study, study.root / "ledgers" / "raven") == []
    assert verify_project(study, Path("preregistrations") / build.SELECT) != []
    with pytest.raises(UsageError, match="nothing to verify"):
        verify_project(study, Path("elsewhere"))
    with pytest.raises(UsageError):
        verify_project(study, Path("/etc"))
