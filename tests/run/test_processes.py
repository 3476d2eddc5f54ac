"""Foreign programs as arms: the wire, its limits, and the processes they leave behind."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.run.process import (
    WorkerDiedError,
    WorkerProcess,
    WorkerReplyError,
    WorkerTimeoutError,
)
from harness.run.supervisor import execute
from harness.store.errors import NotReadyError
from tests.run.bench import arm, journal, kinds, new_run, plan_of
from tests.run.drill import ROOT, check_finished, gone

QUICK = {"aa_blocks": 0, "launches_per_arm": 1}


def engine(role: str, *command: str) -> dict[str, Any]:
    return {"role": role, "backend": "process", "options": {"command": list(command)}}


def child(folder: Path, code: str) -> WorkerProcess:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return WorkerProcess(command, folder / "err", environment={}, folder=folder)


def test_your_own_engine_runs_as_an_arm(tmp_path: Path) -> None:
    own = str(ROOT / "examples" / "own_engine.py")
    (tmp_path / "own_engine.py").write_bytes(Path(own).read_bytes())
    command = ("python", "own_engine.py")
    arms = {"pristine": engine("pristine", *command), "mine": engine("patched", *command)}
    plan = plan_of(arms, {"aa_blocks": 2}, {"aa_ratio": 100.0})
    context = new_run(tmp_path, plan)
    assert execute(context).finished == 6
    trial = kinds(journal(context.paths), "trial", phase="scored")[0]
    assert trial["text"].startswith("WHAT IS")
    assert bytes(trial["token_ids"]).decode() == trial["text"]
    assert kinds(journal(context.paths), "launch", event="ready")[0]["info"]["backend"] == "upper"
    check_finished(context.paths, plan)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("no-such-engine",), "no-such-engine: cannot be started: No such file or directory"),
        (("python", "-c", "import nothing_here"), "No module named 'nothing_here'"),
        (("python", "-c", "print('hello')"), "reply is not strict JSON"),
        (("python", "-c", "print('[1]')"), "reply is not a JSON object"),
        (("python", "-c", 'print(\'{"ok": false, "error": "no GPU"}\')'), "no GPU"),
    ],
)
def test_a_program_that_does_not_start_is_named(
    tmp_path: Path, command: tuple[str, ...], text: str
) -> None:
    arms = {"pristine": arm("pristine"), "mine": engine("patched", *command)}
    context = new_run(tmp_path, plan_of(arms, QUICK))
    with pytest.raises(NotReadyError, match=r"arms\.mine: worker did not start") as caught:
        execute(context)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in context.paths.journal.read_text("utf-8")


def test_a_malformed_reply_is_an_error_of_the_visit(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "own_engine.py").read_text("utf-8")
    (tmp_path / "bad.py").write_text(
        source.replace('"decode_ns": wall', '"decode_ns": -1'), "utf-8"
    )
    arms = {"pristine": arm("pristine"), "mine": engine("patched", "python", "bad.py")}
    context = new_run(tmp_path, plan_of(arms, QUICK))
    execute(context)
    visits = kinds(journal(context.paths), "visit", phase="scored", arm="mine")
    assert {v["status"] for v in visits} == {"error"}
    assert visits[0]["error"] == "timing.decode_ns: found -1, expected a whole number"


def test_a_ghost_does_not_outlive_its_worker(tmp_path: Path) -> None:
    ghost = """
        import os, signal, sys, time
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("ghost", "w").write(str(os.getpid()))
            time.sleep(600)
        for line in sys.stdin:
            print('{"ok": true}', flush=True)
    """
    worker = child(tmp_path, ghost)
    assert worker.request({"op": "hello"}, 5.0) == {"ok": True}
    while not (tmp_path / "ghost").exists() or not (tmp_path / "ghost").read_text():
        time.sleep(0.01)
    ghost_process = psutil.Process(int((tmp_path / "ghost").read_text()))
    worker.close(grace_s=0.2)
    assert gone([ghost_process])


def test_no_exchange_waits_for_ever(tmp_path: Path) -> None:
    silent = child(tmp_path, "import time; time.sleep(600)")
    began = time.monotonic()
    with pytest.raises(WorkerTimeoutError):
        silent.request({"op": "hello"}, 0.3)
    with pytest.raises(WorkerTimeoutError):
        child(tmp_path, "import time; time.sleep(600)").request({"op": "x" * 10_000_000}, 0.3)
    assert time.monotonic() - began < 5


def test_the_last_words_of_a_worker_are_kept_without_its_paths(tmp_path: Path) -> None:
    worker = child(tmp_path, "import sys; sys.exit('/opt/engine/lib/core.so: no kernel image')")
    with pytest.raises(WorkerDiedError, match=r"^exit status 1: core\.so: no kernel image$"):
        worker.request({"op": "hello"}, 5.0)
    worker.close()


def test_a_refusal_leaves_the_worker_alive(tmp_path: Path) -> None:
    code = """
        import sys
        for line in sys.stdin:
            print('{"ok": false, "kind": "oom", "error": "full"}', flush=True)
    """
    worker = child(tmp_path, code)
    for _ in range(2):
        with pytest.raises(WorkerReplyError, match="full") as caught:
            worker.request({"op": "generate"}, 5.0)
        assert caught.value.kind == "oom"
    worker.close()
