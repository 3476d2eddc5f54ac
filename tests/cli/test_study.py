"""The whole way through the command line: freeze, run, verdicts, replication, tampering."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from harness.cli import conclude
from harness.store.framed import scan
from tests.cli.study import CONFIRM, Result, harness, ok, write_plans


def run_folder(study: Path, plan: str = "toy_confirm") -> Path:
    return sorted((study / "runs" / plan).glob("0001-*"))[0]


def test_a_finished_study_verifies(study: Path) -> None:
    assert "verified" in ok(study, "verify").out


def test_verdicts_are_computed_and_failures_printed_as_large(study: Path) -> None:
    words = json.loads((run_folder(study) / "analysis.json").read_text())["verdicts"]
    assert {one["id"]: one["word"] for one in words} == {"P1": "held", "P2": "failed", "P3": "held"}
    out = ok(study, "ledger", "show", "toy").out
    assert "failed" in out
    assert "held" in out


def test_the_rule_chose_the_admissible_candidate_and_kept_the_reason(study: Path) -> None:
    lock = json.loads((study / "preregistrations/toy_confirm/lock.json").read_text())
    assert lock["selection"]["chosen"] == "fast"
    figures = {one["arm"]: one for one in lock["selection"]["figures"]}
    assert "answers_match" in figures["wild"]["reason"]


def test_freezing_again_is_refused_and_changes_nothing(study: Path) -> None:
    path = study / "preregistrations/toy_confirm/lock.json"
    before = path.read_bytes()
    conf = study / "conf/toy_confirm.yaml"
    conf.write_text(conf.read_text().replace("1.4, null", "1.3, null"))
    result = harness(study, "freeze", "conf=toy_confirm")
    assert result.code == 5
    assert "amend" in result.err
    assert path.read_bytes() == before


def ledger(study: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (study / "ledgers/toy").iterdir()}


def test_a_second_run_is_a_replication_and_leaves_the_ledger_alone(
    finished: Path, replicated: tuple[Path, Result]
) -> None:
    study, result = replicated
    assert "replication" in result.err
    rests = "; attempt 1 of 1, unanchored; replication: it changes no registered verdict "
    assert rests in " ".join(result.out.split())
    assert ledger(study) == ledger(finished)
    assert len(list((study / "runs/toy_confirm").glob("0002-*/chain/*.json"))) >= 3
    ok(study, "verify")


def test_the_same_plan_twice_has_the_same_order_and_token_ids(
    replicated: tuple[Path, Result],
) -> None:
    first, second = sorted((replicated[0] / "runs/toy_confirm").glob("000*"))
    orders = [json.loads((run / "run.json").read_text())["order_digest"] for run in (first, second)]
    assert orders[0] == orders[1]
    ids = [
        {tuple(r["key"].values()): r["token_ids"] for r in scan(run / "journal.log").records
         if r["kind"] == "trial" and r["phase"] == "scored"}
        for run in (first, second)
    ]  # fmt: skip
    assert len(ids[0]) == 12 * 2 * 4
    assert ids[0] == ids[1]


@pytest.mark.parametrize(("step", "left"), [("analyse", "verdicts"), ("report", "report")])
def test_a_stop_after_the_last_visit_leaves_nothing_that_cannot_be_completed(
    study: Path, monkeypatch: pytest.MonkeyPatch, step: str, left: str
) -> None:
    def stop(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

    monkeypatch.setattr(conclude, step, stop)
    stopped = harness(study, "run", "conf=toy_select")
    monkeypatch.undo()
    assert stopped.code == 130
    again = next((study / "runs/toy_select").glob("0002-*"))
    assert not (again / "report").exists()
    if left == "report":
        words = ("report", again.relative_to(study).as_posix())
        assert f"`harness {' '.join(words)}` writes its report" in stopped.err
        ok(study, *words)
    else:
        assert "run the same command again to resume" in stopped.err
        ok(study, "run", "conf=toy_select")
    assert (again / "report" / "report.html").is_file()
    assert len(list((study / "runs/toy_select").iterdir())) == 2
    ok(study, "verify")


def test_strict_exits_11_when_a_prediction_did_not_hold(replicated: tuple[Path, Result]) -> None:
    assert replicated[1].code == 11


def test_the_same_records_give_the_same_analysis_to_the_last_bit(study: Path) -> None:
    path = run_folder(study) / "analysis.json"
    before = path.read_bytes()
    ok(study, "analyze", "toy_confirm")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "conf=toy_confirm", "schedule.blocks=3"], 5),
        (["run", "conf=nothing"], 2),
        (["run", "conf=[toy_confirm,toy_select]"], 2),
        (["run", "conf=toy_confirm", "conf=toy_select"], 2),
        (["run", "conf=../conf/toy_confirm"], 2),
        (["run", "conf=toy_confirm", "+sead=2"], 2),
        (["run"], 2),
        (["analyze", "nothing"], 4),
        (["verify", "conf"], 2),
        (["nonsense"], 2),
        ([], 2),
    ],
)
def test_mistakes_end_in_one_line_and_the_right_code(
    study: Path, words: list[str], code: int
) -> None:
    before = sorted(path for path in study.rglob("*"))
    result = harness(study, *words)
    assert result.code == code, result.err
    if words:
        assert result.err.count("\n") == 1
        assert "Traceback" not in result.err
    assert sorted(path for path in study.rglob("*")) == before


def test_a_confirm_plan_needs_its_lock_and_its_selection(tmp_path: Path) -> None:
    write_plans(tmp_path)
    assert harness(tmp_path, "run", "conf=toy_confirm").code == 4
    result = harness(tmp_path, "freeze", "conf=toy_confirm")
    assert result.code == 4
    assert "toy_select" in result.err
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    write_plans(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ok(tmp_path, "freeze", "--dry-run", "conf=toy_select")
    assert sorted(tmp_path.rglob("*")) == before


COVERED = {
    "lock": "preregistrations/toy_confirm/lock.json",
    "conf": "conf/toy_confirm.yaml",
    "first record": "ledgers/toy/00000001.json",
    "middle record": "ledgers/toy/00000004.json",
    "last record": "ledgers/toy/00000008.json",
    "journal": "journal.log",
    "manifest": "run.json",
    "seal": "seal.json",
}


@pytest.mark.parametrize("name", COVERED)
def test_one_changed_byte_is_found_and_named(study: Path, name: str) -> None:
    path = study / COVERED[name]
    if not path.exists():
        path = run_folder(study) / COVERED[name]
    source = random.Random(name)
    data = bytearray(path.read_bytes())
    where = source.randrange(len(data))
    data[where] ^= source.randrange(1, 256)
    path.write_bytes(bytes(data))
    result = harness(study, "verify")
    assert result.code == 3, (where, result.err)
    assert path.name in result.err or f"record {int(path.stem)}" in result.err


def test_a_run_starts_nothing_when_a_locked_file_changed(study: Path) -> None:
    conf = study / "conf/toy_confirm.yaml"
    conf.write_text(CONFIRM + "\n# the bar is lower\n")
    result = harness(study, "run", "conf=toy_confirm")
    assert result.code == 3
    assert "conf/toy_confirm.yaml" in result.err
    assert len(list((study / "runs/toy_confirm").iterdir())) == 1


def test_every_command_prints_json_where_it_prints_facts(study: Path) -> None:
    for words in (["list"], ["show", "toy_confirm"], ["status"], ["verify"], ["doctor"],
                  ["ledger", "show", "toy"], ["analyze", "toy_confirm"]):  # fmt: skip
        json.loads(ok(study, *words, "--json").out)


def test_reports_are_written_for_runs_and_ledgers(study: Path) -> None:
    assert b"<path" in (run_folder(study) / "report" / "figure_forest.svg").read_bytes()
    ok(study, "report", "toy_confirm")
    page = (run_folder(study) / "report" / "report.html").read_text()
    assert "failed" in page
    ok(study, "ledger", "report", "toy")
    assert list((study / "reports/toy").glob("*.html"))
