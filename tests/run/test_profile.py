"""The profiling pass: after the scored blocks, on explore items, kept and never eligible."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.plan.schema import Plan
from harness.run import ncu
from harness.run.supervisor import execute
from harness.store.digests import sha256_file
from harness.store.files import read_json
from tests.run.analysed import analysis, plan_with, ran
from tests.run.bench import arm, journal, kinds, new_run, plan_of, real_run, seal_run, two_arms
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


FAKE_NCU = """#!{python}
import json, pathlib, subprocess, sys
at = next(n for n in range(1, len(sys.argv), 1) if "python" in sys.argv[n])
options, command = sys.argv[1:at], sys.argv[at:]
said, words = {{}}, iter(options)
for word in words:
    said[word] = True if word == "--csv" else next(words)
assert set(said) == {{"--target-processes", "--profile-from-start", "--launch-count", "--csv",
    "--clock-control", "--metrics", "--print-units", "--log-file"}}, said
assert said["--profile-from-start"] == "off" and 0 < int(said["--launch-count"]) <= 200
assert said["--clock-control"] == "none" and said["--target-processes"] == "all"
log = pathlib.Path(said["--log-file"])
log.write_text("==PROF== Connected to process 7 (/usr/bin/python3)\\n")
code = subprocess.call(command)
head = '"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name","Metric Unit",'
rows = [head + '"Metric Value"']
for number, (name, ns) in enumerate([("gemm(float *)", "1,500"), ("copy", "40"),
                                     ("gemm(float *)", "2,500")][:{kernels}]):
    for metric in said["--metrics"].split(","):
        value = ns if metric == "gpu__time_duration.sum" else str(10 + number)
        rows.append(f'"{{number}}","7","python3","secret-host","{{name}}","{{metric}}","ns","{{value}}"')
log.write_text(log.read_text() + "\\n".join(rows) + "\\n")
sys.exit(code)
"""


def on_cuda(plan: Plan) -> Plan:
    """The same plan for a device that the fake engine doesn't need."""
    return plan.model_copy(update={"model": plan.model.model_copy(update={"device": "cuda"})})


def put_ncu(folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    folder.mkdir()
    (folder / "ncu").write_text(text)
    (folder / "ncu").chmod(0o755)
    patch.setenv("PATH", str(folder), prepend=":")


def profiled(folder: Path, **options: Any) -> Any:
    context = real_run(folder, on_cuda(plan_of(two_arms(options, **options),
                                               {**QUICK, "profile": True})))  # fmt: skip
    assert execute(context).finished == 4
    return context, {
        name: read_json(context.paths.profile(name)) for name in ("pristine", "patched")
    }


def test_on_cuda_the_worker_is_profiled_below_nsight_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ncu(tmp_path / "bin", monkeypatch, FAKE_NCU.format(python=sys.executable, kernels=3))
    context, found = profiled(tmp_path / "run")
    for profile in found.values():
        assert (profile["tool"], profile["eligible"]) == ("Nsight Compute", False)
        assert [(row["name"], row["calls"], row["self_ns"]) for row in profile["rows"]] == [
            ("gemm(float *)", 2, 4000), ("copy", 1, 40)
        ]  # fmt: skip
        assert profile["rows"][0]["metrics"]["dram__bytes_read.sum"] == 11.0
        assert all(str(item).startswith("explore") for item in profile["items"])
        assert "secret-host" not in str(profile)
    records = journal(context.paths)
    last = max(r["seq"] for r in kinds(records, "visit", phase="scored"))
    logs = sorted(path.name for path in context.paths.logs.glob("ncu.*.csv"))
    assert logs == ["ncu.patched.2.csv", "ncu.pristine.2.csv"]
    below = [r for r in kinds(records, "launch", event="ready") if r["start"] == 2]
    assert len(below) == 2
    assert all(record["seq"] > last for record in below)
    assert not [t for t in kinds(records, "trial", phase="scored") if t["start"] == 2]
    sealed = seal_run(context.paths)
    assert not [name for name in sealed["files"] if "ncu" in name]
    assert {"profile.patched.json", "profile.pristine.json"} <= set(sealed["files"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FAKE_NCU.format(python=sys.executable, kernels=0), "no kernel was seen"),
        ("#!/bin/sh\necho no permission >&2\nexit 1\n", "worker did not start"),
    ],
)
def test_where_it_sees_nothing_the_engine_profiles_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    put_ncu(tmp_path / "bin", monkeypatch, text)
    context, found = profiled(tmp_path / "run")
    for profile in found.values():
        assert profile["tool"] == "cProfile"
        assert str(profile["instead_of"]).startswith("Nsight Compute: ")
        assert reason in str(profile["instead_of"])
    seal_run(context.paths)


def test_without_a_device_or_without_it_nothing_is_started_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ncu.tool("cuda") is None
    put_ncu(tmp_path / "bin", monkeypatch, "#!/bin/sh\n")
    assert ncu.tool("cpu") is None
    assert ncu.tool("cuda") == str(tmp_path / "bin" / "ncu")


def test_a_profile_below_nsight_compute_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ncu(tmp_path / "bin", monkeypatch, FAKE_NCU.format(python=sys.executable, kernels=3))
    plan = on_cuda(plan_with(two_arms()))
    _, plain = ran(tmp_path / "plain", plan)
    schedule = plan.schedule.model_copy(update={"profile": True})
    context = real_run(tmp_path / "profiled", plan.model_copy(update={"schedule": schedule}))
    execute(context)
    assert kinds(journal(context.paths), "run", event="profiled")[0]["eligible"] is False
    assert analysis(context)["verdicts"] == plain["verdicts"]
