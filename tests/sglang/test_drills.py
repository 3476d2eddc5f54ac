"""What a run makes of engines that die, hang, or are not what their arm says: codes and sentences.

The first half runs a fake engine that has these vices; the second half, marked `sglang`, the real
one (its interpreter is HARNESS_SGLANG_PYTHON).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.backends.sglang.server import free_port, taken
from harness.backends.table import command
from harness.run.folder import run_folders
from harness.store.canonical import Json
from harness.store.framed import scan
from harness.store.paths import Project
from tests.cli.study import Result, harness, outlines
from tests.run.bench import kinds
from tests.sglang.fakes import FULL, RIPE, pretend

PLAN = """
study: drills
stage: explore
question: drill
title: a drill
model: {{name: tiny_ripe, loops: {loops}, dtype: {dtype}}}
task: {{max_tokens: 12}}
partitions: {{source: arithmetic, seed: drill, options: {{steps: [2, 3]}}, explore: {explore}}}
arms:
  pristine: {pristine}
  patched: {patched}
schedule: {{design: abba_baab, block_items: 2, blocks: {blocks}, spare_blocks: {spare_blocks}}}
measurements: [generation, memory]
limits: {{interrupted_share: 1.0, item_timeout_s: {item_timeout_s}, start_timeout_s: {start}}}
"""


def write(folder: Path, options: Json | None = None, **numbers: Any) -> Path:
    """A project with one plan, `drill`."""
    given = {"start_timeout_s": 100, **(options or {})}
    chosen: Json = {
        "dtype": "bfloat16",
        "loops": 4,
        "blocks": 2,
        "spare_blocks": 1,
        "item_timeout_s": 20.0,
        "start": 120.0,
    }
    chosen |= numbers
    arms = {}
    for role, cache in (("pristine", FULL), ("patched", RIPE)):
        arm = {"role": role, "backend": "sglang", "cache": cache, "options": given,
               "decode": {"kind": "sequential"}}  # fmt: skip
        arms[role] = json.dumps(arm)
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    explore = 2 * int(chosen["blocks"])
    text = PLAN.format(**chosen, **arms, explore=explore)
    (folder / "conf" / "drill.yaml").write_text(text, encoding="utf-8")
    return folder


def run(folder: Path) -> Result:
    with outlines():
        return harness(folder, "run", "conf=drill")


def records(folder: Path) -> list[Json]:
    (paths,) = run_folders(Project(folder), "drill")
    return scan(paths.journal).records


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no folder. The folder is near the root: sockets need short names."""
    temporary = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield
    until = time.monotonic() + 5
    while (left := _started(tmp_path / "project")) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert not list(temporary.glob("harness-*"))
    shutil.rmtree(temporary)


def _started(project: Path) -> list[psutil.Process]:
    """What workers started, by its folder: SGLang's processes rename themselves and lose their
    environment by that, and an orphan has another parent.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.cwd() == str(project):
                found.append(process)
    return found


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "launch", [pytest.param("offline", marks=SLOW), pytest.param("server", marks=SLOW)]
)
def test_an_engine_that_dies_mid_block_costs_that_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: str
) -> None:
    batch = 4 if launch == "offline" else 5
    pretend(monkeypatch, die_batch=batch, once=str(tmp_path / "once"))
    project = write(tmp_path / "project", {"launch": launch})
    result = run(project)
    assert result.code == 0, result.err
    found = records(project)
    (death,) = kinds(found, "launch", event="died")
    assert death["reason"] == "exit status 1: SGLang died: signal 9: IndexError: row 9"
    (interrupted,) = kinds(found, "block", event="interrupted")
    assert len(kinds(found, "block", event="spare", replaces=interrupted["block"])) == 1
    assert {v["status"] for v in kinds(found, "visit", phase="scored")} == {"ok"}


@SLOW
def test_a_taken_port_stops_the_run_which_then_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        project = write(tmp_path / "project", {"launch": "server", "port": port}, blocks=1)
        text = (project / "conf" / "drill.yaml").read_text("utf-8")
        exclusive = text.replace("schedule: {", "schedule: {residency: exclusive, ")
        (project / "conf" / "drill.yaml").write_text(exclusive, "utf-8")
        result = run(project)
    assert result.code == 8
    assert (
        "self-test: did not answer: SGLang did not start: options.port: "
        f"{port} is taken by another program"
    ) in result.err
    again = run(project)
    assert again.code == 0, again.err
    assert "resuming" in again.err
    assert not taken(port)


@pytest.mark.parametrize(
    ("vices", "options", "code", "said"),
    [
        (
            {"broken_plugins": ["harness_ripe"]}, {}, 8,
            "self-test: did not answer: SGLang did not start: exit status 1: "
            "ValueError: attention_backend: invalid choice: 'ripe_torch_native'",
        ),
        pytest.param(
            {"broken_plugins": ["harness_ripe"], "lenient": True}, {}, 5,
            "arms.patched: is patched but shows no patch", marks=SLOW,
        ),
        pytest.param(
            {"inert": True}, {}, 9,
            "arms.patched: the patch was not active: its counters stood still in a visit",
            marks=SLOW,
        ),
        pytest.param(
            {"more_hooks": ["sampler.forward|replace|turbo"]}, {}, 5,
            "arms.pristine: is pristine but shows a patch (sampler.forward|replace|turbo); run "
            "unpatched code", marks=SLOW,
        ),
        pytest.param(
            {"silent_observer": True}, {}, 8,
            "self-test: did not answer: the engine reports nothing: its plugin", marks=SLOW,
        ),
        pytest.param(
            {"health_only": True}, {"launch": "server", "start_timeout_s": 10}, 8,
            "self-test: did not answer: SGLang did not start: the server answers "
            "/health but does not generate", marks=SLOW,
        ),
        pytest.param(
            {"cached": 3}, {}, 0, "", marks=SLOW,
        ),
    ],
)  # fmt: skip
def test_an_engine_that_is_not_what_its_arm_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vices: Json,
    options: Json,
    code: int,
    said: str,
) -> None:
    pretend(monkeypatch, **vices)
    project = write(tmp_path / "project", options, blocks=1)
    result = run(project)
    assert result.code == code, result.err
    assert said in " ".join(result.err.split())
    if "cached" in vices:
        voided = kinds(records(project), "block", event="void")
        assert "cache" in voided[0]["reason"]


@SLOW
def test_an_engine_that_hangs_in_a_visit_is_censored_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, hang_batch=3, once=str(tmp_path / "once"))
    project = write(tmp_path / "project", blocks=1, item_timeout_s=1.0)
    result = run(project)
    assert result.code == 0, result.err
    visits = kinds(records(project), "visit", phase="scored")
    assert sorted(v["status"] for v in visits) == ["ok", "ok", "ok", "timeout"]
    (late,) = [v for v in visits if v["status"] == "timeout"]
    assert late["timing"]["decode_ns"] >= 1e9


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, sglang_python: Path) -> Path:
    """From now on, workers of backend sglang run on the interpreter that has it."""

    def started(backend: str, options: Json, python: str) -> list[str]:
        return command(backend, options, str(sglang_python))

    monkeypatch.setattr("harness.run.launch.command", started)
    return sglang_python


@pytest.mark.sglang
@pytest.mark.timeout(1800)
def test_a_real_engine_killed_mid_block_costs_that_block(tmp_path: Path, real: Path) -> None:
    numbers = {"blocks": 2, "spare_blocks": 1, "start": 600.0, "item_timeout_s": 120.0,
               "dtype": "float32"}  # fmt: skip
    project = write(tmp_path / "project", {"start_timeout_s": 590}, **numbers)
    killed: list[int] = []
    watcher = threading.Thread(target=_kill_once, args=(project, killed), daemon=True)
    watcher.start()
    result = run(project)
    watcher.join(5)
    assert killed, result.err
    assert result.code == 0, result.err
    found = records(project)
    (death,) = kinds(found, "launch", event="died")
    assert "SGLang died: " in death["reason"]
    assert kinds(found, "block", event="interrupted")
    ready = kinds(found, "launch", event="ready", arm="patched")[0]["info"]
    assert ready["patch"]["claims"] is True
    assert ready["engine"]["pool"]["formula_bytes"] == ready["engine"]["pool"]["bytes"]
    pristine = kinds(found, "launch", event="ready", arm="pristine")[0]["info"]
    assert pristine["patch"] == {"claims": False, "name": None}


def _kill_once(project: Path, killed: list[int]) -> None:
    """Kill a scheduler once two visits of a block are recorded."""
    until = time.monotonic() + 1700
    while time.monotonic() < until:
        with contextlib.suppress(Exception):
            if len(kinds(records(project), "visit", phase="scored")) >= 2:
                for process in _started(project):
                    if "scheduler" in process.name():
                        process.kill()
                        killed.append(process.pid)
                        return
        time.sleep(0.02)


@pytest.mark.sglang
@pytest.mark.timeout(900)
@pytest.mark.parametrize("vice", ["window", "taken"])
def test_a_real_engine_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: Path, vice: str
) -> None:
    options: Json = {"start_timeout_s": 590}
    if vice == "window":
        options["radix_cache"] = True
    said = "radix cache: found it on, expected off" if vice == "window" else "is taken by another"
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        holder.listen()
        if vice == "taken":
            options |= {"launch": "server", "port": holder.getsockname()[1]}
        project = write(tmp_path / "project", options, blocks=1, start=600.0)
        result = run(project)
    assert result.code == 8, result.err
    assert said in " ".join(result.err.split())
    assert os.environ.get("SGLANG_PLUGINS") is None


TURBO = """
def activate():
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    target = "sglang.srt.model_executor.model_runner.ModelRunner.forward"
    HookRegistry.register(target, lambda result, *_, **__: None, HookType.AFTER)
"""


@pytest.mark.sglang
@pytest.mark.timeout(1200)
def test_a_real_pristine_engine_with_a_plugin_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: Path
) -> None:
    site = tmp_path / "site"
    (site / "turbo-1.dist-info").mkdir(parents=True)
    (site / "turbo.py").write_text(TURBO)
    (site / "turbo-1.dist-info" / "METADATA").write_text("Name: turbo\nVersion: 1\n")
    points = "[sglang.srt.plugins]\nturbo = turbo:activate\n"
    (site / "turbo-1.dist-info" / "entry_points.txt").write_text(points)
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    options: Json = {"start_timeout_s": 590, "plugins": ["turbo"]}
    result = run(write(tmp_path / "project", options, blocks=1, start=600.0))
    assert result.code == 5, result.err
    said = " ".join(result.err.split())
    assert "arms.pristine: is pristine but shows a patch (" in said
    assert "ModelRunner.forward|after|turbo" in said


@pytest.mark.sglang
@pytest.mark.timeout(1200)
def test_a_real_engine_without_the_plugin_does_not_know_its_backend(
    tmp_path: Path, real: Path
) -> None:
    options: Json = {"start_timeout_s": 590, "attention_backend": "ripe_torch_native"}
    result = run(write(tmp_path / "project", options, blocks=1, start=600.0))
    assert result.code == 8, result.err
    said = " ".join(result.err.split())
    assert "arms.pristine: worker did not start: SGLang did not start: " in said
    assert "ripe_torch_native" in said
