"""Run folders, their manifests, seals and status; nothing in them names a machine or a person."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.run import privacy
from harness.run.environment import machine, machine_id
from harness.run.folder import create_run, run_folders, unfinished
from harness.run.status import status
from harness.run.supervisor import execute
from harness.store.clock import CLOCK
from harness.store.errors import (
    ChangedError,
    IncompleteError,
    RefusedError,
    StoppedError,
    UsageError,
    VoidError,
)
from harness.store.files import read_json
from harness.store.framed import FramedLog, scan
from harness.store.paths import Project
from tests.run.bench import NONCE, new_run, plan_of, seal_run, two_arms

QUICK = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 2}


def create(folder: Path, **changes: Any) -> Any:
    given: dict[str, Any] = {"role": "unregistered", "nonce": NONCE, "lock_digest": None}
    return create_run(Project(folder), plan_of(schedule=QUICK), **{**given, **changes})


def test_runs_are_numbered_and_named_by_what_they_run(tmp_path: Path) -> None:
    first, second = create(tmp_path), create(tmp_path)
    assert first.root.name.startswith("0001-")
    assert second.root.name.startswith("0002-")
    assert len(first.root.name) == 4 + 1 + 12
    other = create(tmp_path / "elsewhere", lock_digest="ab" * 32)
    assert other.root.name[5:] != first.root.name[5:]
    assert [p.root for p in run_folders(Project(tmp_path), "tiny")] == [first.root, second.root]
    assert read_json(first.manifest)["run_id"] == first.root.name


def test_the_newest_run_without_seal_or_verdicts_of_the_same_plan_is_resumed(
    tmp_path: Path,
) -> None:
    plan, project = plan_of(schedule=QUICK), Project(tmp_path)
    assert unfinished(project, plan) is None
    context = new_run(tmp_path, plan)
    assert unfinished(project, plan) == context.paths
    assert unfinished(project, plan_of()) is None
    execute(context)
    seal_run(context.paths)
    assert unfinished(project, plan) is None
    assert unfinished(project, plan, judged=True) == context.paths
    context.paths.analysis.write_text("{}")
    assert unfinished(project, plan, judged=True) is None


def test_a_void_run_is_not_resumed(tmp_path: Path) -> None:
    plan, project = plan_of(schedule={**QUICK, "aa_blocks": 2}), Project(tmp_path)
    context = new_run(tmp_path, plan, aa_interval=lambda _: {"low": -1.0, "high": 1.0})
    with pytest.raises(VoidError, match="then start another run"):
        execute(context)
    assert unfinished(project, plan) is None
    again = new_run(tmp_path, plan)
    assert again.paths.root.name.startswith("0002-")
    assert unfinished(project, plan) == again.paths


def test_a_folder_without_a_manifest_is_taken_over(tmp_path: Path) -> None:
    first = create(tmp_path)
    first.manifest.unlink()
    assert create(tmp_path).root == first.root


def test_only_finished_runs_are_sealed(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    with pytest.raises(IncompleteError):
        seal_run(context.paths)
    with FramedLog(context.paths.journal) as log:
        log.append({"kind": "run", "event": "started", "at": CLOCK.utc(), "seq": 0})
    with pytest.raises(IncompleteError, match="not finished"):
        seal_run(context.paths)


def test_a_seal_notices_changed_files(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    execute(context)
    seal_run(context.paths)
    context.paths.journal.write_bytes(context.paths.journal.read_bytes() + b"x")
    with pytest.raises(ChangedError, match=r"journal\.log: changed"):
        seal_run(context.paths)


def test_a_record_that_names_the_machine_is_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = new_run(tmp_path, plan_of(schedule=QUICK))
    execute(context)
    reason = "seen on https://user:secret@example.org/simple"
    with FramedLog(context.paths.journal) as log:
        number = len(scan(context.paths.journal).records)
        log.append({"kind": "run", "event": "resumed", "reason": reason, "seq": number})
    with pytest.raises(RefusedError, match=f"record {number + 1}: reason: holds an index"):
        seal_run(context.paths)


def test_a_plan_with_a_machine_path_never_starts(tmp_path: Path) -> None:
    command = ["/opt/engine/bin/serve"]
    arms = two_arms()
    arms["patched"] = {"role": "patched", "backend": "process", "options": {"command": command}}
    with pytest.raises(UsageError, match=r"plan_json.arms.patched.options.command\[0\]: holds an"):
        create_run(
            Project(tmp_path), plan_of(arms), role="unregistered", nonce=NONCE, lock_digest=None
        )


def test_scrubbing_leaves_words_and_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "_names", lambda: ("lab-42", "ada"))
    found = privacy.scrub("ada@lab-42: /home/ada/x/kernel.cu:7: see https://x.org/a, and/or canada")
    assert found == "<name>@<name>: kernel.cu:7: see <url> and/or canada"
    assert not list(privacy.leaks({"reason": found}))
    assert list(privacy.leaks({"info": {"host": "lab-42"}, "text": "ada", "arm": "ada"})) == [
        ("info.host", "a host or user name")
    ]


def test_a_machine_is_recognised_under_one_salt_only() -> None:
    assert machine_id("a") == machine_id("a") != machine_id("b")
    found = machine("cpu", "a")
    assert found["device_class"].startswith("cpu: ")
    assert socket.gethostname() not in str(found)


def test_status_follows_a_run(tmp_path: Path) -> None:
    context = new_run(tmp_path, plan_of())
    before = status(context.paths)
    assert (before.word, before.phase, before.done, before.total) == ("aborted", "start", 0, 32)
    seen = []

    def look(progress: object) -> None:
        seen.append(status(context.paths))
        if seen[-1].done == 12:
            raise StoppedError("enough")

    with pytest.raises(StoppedError):
        execute(replace(context, progress=look))
    assert [s.done for s in seen] == list(range(13))
    assert {s.word for s in seen} == {"running"}
    assert seen[0].phase == "aa"
    assert seen[-1].phase == "blocks"
    assert seen[-1].eta_s is not None
    assert status(context.paths).word == "aborted"
    execute(context)
    after = status(context.paths)
    assert (after.word, after.done, after.total) == ("finished", 32, 32)
    assert (after.blocks_finished, after.blocks_planned, after.eta_s) == (6, 6, None)
