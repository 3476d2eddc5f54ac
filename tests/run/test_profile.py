"""The profiling pass: after the scored blocks, on explore items, kept and never eligible."""

from __future__ import annotations

from pathlib import Path

from harness.run.supervisor import execute
from harness.store.digests import sha256_file
from harness.store.files import read_json
from tests.run.analysed import analysis, plan_with, ran
from tests.run.bench import arm, journal, kinds, new_run, plan_of, seal_run, two_arms
from tests.run.drill import ROOT
from tests.run.inline import inline

QUICK = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 4}


def test_every_arm_is_profiled_after_the_last_scored_visit(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule={**QUICK, "profile": True}))
    execute(context)
    records = journal(context.paths)
    notes = kinds(records, "run", event="profiled")
    assert {note["arm"] for note in notes} == {"pristine", "patched"}
    assert all(note["eligible"] is False for note in notes)
    last = max(r["seq"] for r in kinds(records, "visit", phase="scored"))
    assert all(note["seq"] > last for note in notes)
    sealed = seal_run(context.paths)
    for note in notes:
        path = context.paths.root / note["file"]
        assert note["sha256"] == sha256_file(path) == sealed["files"][path.name]["sha256"]
        profile = read_json(path)
        assert profile["eligible"] is False
        assert all(str(item).startswith("explore") for item in profile["items"])  # type: ignore[attr-defined]
        assert any("fake.py" in row["name"] for row in profile["rows"])  # type: ignore[attr-defined]


def test_a_profile_changes_no_verdict(tmp_path: Path) -> None:
    plan = plan_with(two_arms())
    _, plain = ran(tmp_path / "plain", plan)
    context = new_run(tmp_path / "profiled", plan_with(two_arms(), profile=True),
                      start_worker=inline)  # fmt: skip
    execute(context)
    assert analysis(context)["verdicts"] == plain["verdicts"]


def test_an_engine_that_cannot_be_profiled_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_bytes((ROOT / "examples" / "own_engine.py").read_bytes())
    own = {"role": "patched", "backend": "process", "options": {"command": ["python", "own.py"]}}
    plan = plan_of({"pristine": arm("pristine"), "own": own}, {**QUICK, "profile": True})
    context = new_run(tmp_path, plan)
    assert execute(context).finished == 4
    notes = {n["arm"]: n for n in kinds(journal(context.paths), "run", event="profiled")}
    assert notes["own"]["error"] == "this engine can't be profiled"
    assert "file" in notes["pristine"]
    assert execute(context).finished == 4
    seal_run(context.paths)


def test_a_plan_without_it_is_not_profiled(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK), start_worker=inline)
    execute(context)
    assert not kinds(journal(context.paths), "run", event="profiled")
    assert not list(context.paths.root.glob("profile.*"))
