"""What is sampled around a visit, what is kept of it, and which blocks a limit voids."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.plan.digest import plan_digest, plan_json
from harness.run import crew, family
from harness.run.samples import publish
from harness.run.supervisor import execute
from harness.run.telemetry import Telemetry, cpu_clock, gpu_clocks
from harness.store.canonical import canonical
from harness.store.errors import NotReadyError
from harness.store.paths import RunPaths
from harness.store.tables import append_line, read_table
from tests.run.analysed import SPEED, analysis, predicting, verdict
from tests.run.bench import journal, kinds, new_run, plan_of, seal_run, two_arms
from tests.run.inline import inline

QUICK = {"aa_blocks": 0, "launches_per_arm": 1}


def test_clocks_are_the_lowest_and_the_rest_are_means() -> None:
    readings = iter([{"cpu_mhz": 900.0, "power_w": 10.0}, {"cpu_mhz": 1200.0, "power_w": 20.0},
                     {"cpu_mhz": 2000.0, "gpu_throttle_reasons": 4.0}])  # fmt: skip
    telemetry = Telemetry(lambda: next(readings))
    telemetry.sample()
    time.sleep(0.02)
    found = telemetry.summary()
    assert (found["cpu_mhz"], found["power_w"], found["samples"]) == (1200.0, 15.0, 3)
    assert found["gpu_throttle_reasons"] == 4
    assert found["roundtrip_ns"] >= 20_000_000
    assert [sample["at_ms"] for sample in telemetry.samples] == sorted(
        sample["at_ms"] for sample in telemetry.samples
    )
    assert canonical(found)


def test_foreign_load_is_what_neither_runner_nor_worker_used() -> None:
    telemetry, began, own = Telemetry(), time.monotonic(), time.process_time()
    while time.monotonic() < began + 0.55 or time.process_time() < own + 0.3:
        pass
    used = time.process_time() - own
    found = telemetry.summary()
    own_cores = used / (found["roundtrip_ns"] / 1e9)
    assert found["busy_cores"] > own_cores - 0.1
    assert found["foreign_load"] == pytest.approx(found["busy_cores"] - own_cores, abs=0.1)
    assert "foreign_load" not in Telemetry().summary()


BURN = "import time\nuntil = time.monotonic() + 30\nwhile time.monotonic() < until: pass"
PARENT = f"""import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {BURN!r}], env={{}})
print(child.pid, flush=True)
child.wait()"""


def test_an_engine_below_a_worker_is_the_runs_own() -> None:
    """An engine's processes may wipe the marks in their environment, as SGLang's do."""
    marks = {**os.environ, family.RUN: "a-run"}
    command = [sys.executable, "-S", "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=marks) as worker:
        assert worker.stdout is not None
        engine = int(worker.stdout.readline())
        try:
            telemetry, alone = Telemetry(pids=[worker.pid]), Telemetry()
            time.sleep(0.8)
            found, missed = telemetry.summary(), alone.summary()
            assert family.descendants([worker.pid]) == {engine}
            assert family.is_marked(engine)
            assert missed["foreign_load"] - found["foreign_load"] > 0.2
            both = sum(psutil.Process(pid).memory_info().rss for pid in (worker.pid, engine))
            assert found["workers_mib"] == pytest.approx(both / 2**20, rel=0.2)
        finally:
            psutil.Process(engine).kill()


def test_a_machine_that_tells_nothing_gives_no_fields() -> None:
    assert all(value >= 0 for value in cpu_clock().values())
    sampler = gpu_clocks()
    assert sampler is None or "gpu_sm_mhz" in sampler()
    assert "gpu_sm_mhz" not in Telemetry(None).summary()


def test_every_visit_is_in_the_table_and_the_table_in_the_seal(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(), start_worker=inline)
    execute(context)
    visits = kinds(journal(context.paths), "visit")
    rows = read_table(context.paths.telemetry)
    keys = {tuple(row[k] for k in ("phase", "block", "arm", "visit", "start")) for row in rows}
    assert len(keys) == len(visits)
    assert {row["phase"] for row in rows} == {"aa", "warmup", "scored"}
    assert all(row["at_ms"] >= 0 for row in rows)
    assert not context.paths.samples.exists()
    assert "telemetry.parquet" in seal_run(context.paths)["files"]


def test_a_line_that_a_crash_cut_is_left_out(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    append_line(paths.samples, {"key": {"block": 1}, "samples": [{"at_ms": 0.5}, {"x": 1.0}]})
    with paths.samples.open("a") as handle:
        handle.write('{"key": {"bl')
    publish(paths)
    assert read_table(paths.telemetry) == [
        {"at_ms": 0.5, "block": 1, "x": None}, {"at_ms": None, "block": 1, "x": 1.0},
    ]  # fmt: skip
    publish(paths)
    assert len(read_table(paths.telemetry)) == 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A clock that tests set, by the number of readings."""
    state = {"mhz": 3000.0}
    monkeypatch.setattr(crew, "sampler_of", lambda _: lambda: {"cpu_mhz": state["mhz"]})
    return state


def test_a_clock_that_falls_voids_the_block_by_the_frozen_rule(
    tmp_path: Path, clock: dict[str, float]
) -> None:
    plan = predicting(
        plan_of(two_arms(), {**QUICK, "blocks": 12}, {"clock_drop": 0.1, "void_share": 0.5}), SPEED
    )
    context = new_run(tmp_path, plan, start_worker=inline)

    def throttle(step: Any) -> None:
        hot = step.text.startswith(("block 3,", "block 4,"))
        clock["mhz"] = 2400.0 if hot else 2950.0

    execute(replace(context, progress=throttle))
    events = kinds(journal(context.paths), "block", event="void")
    assert [event["block"] for event in events] == [2, 3]
    assert events[0]["reason"] == (
        "cpu_mhz fell to 2400, 20.0% below the run's highest 3000; the limit is 10.0%"
    )
    found = verdict(analysis(context), "P1")
    assert (found["word"], found["n"], found["without_voids"]) == ("held", 10, "held")


def test_foreign_load_voids_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = {"gpu_foreign_processes": 1.0}
    monkeypatch.setattr(crew, "sampler_of", lambda _: lambda: reading)
    context = new_run(
        tmp_path, plan_of(two_arms(), QUICK, {"foreign_load": 0.5}), start_worker=inline
    )
    assert execute(context).void == 6
    reasons = {e["reason"] for e in kinds(journal(context.paths), "block", event="void")}
    assert reasons == {"foreign load 1.00 is above the limit 0.5"}


def test_a_limit_that_could_never_void_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "sampler_of", lambda _: dict)
    context = new_run(tmp_path, plan_of(two_arms(), QUICK, {"clock_drop": 0.1}))
    with pytest.raises(NotReadyError, match=r"limits\.clock_drop: this machine does not tell"):
        execute(context)


def test_limits_that_are_not_set_leave_the_digest_alone() -> None:
    values = plan_json(plan_of())
    assert not {"clock_drop", "foreign_load"} & set(values["limits"])
    assert "profile" not in values["schedule"]
    assert plan_digest(plan_of()) != plan_digest(plan_of(limits={"clock_drop": 0.1}))
