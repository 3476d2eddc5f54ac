"""SGLang's HTTP server as an engine: its port, its readiness, its death."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.backends.sglang.server import flags, free_port, taken
from harness.backends.sglang.worker import SglangBackend
from harness.run import scratch
from tests.sglang.fakes import arm, ask, batch, hello, pretend


@pytest.mark.slow
def test_a_server_that_only_answers_health_did_not_start(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, health_only=True)
    reply = ask(worker, hello(arm("pristine", launch="server", start_timeout_s=5)))
    assert "the server answers /health but does not generate" in reply["error"]


def test_a_taken_port_is_named(worker: SglangBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert taken(port)
        reply = ask(worker, hello(arm("pristine", launch="server", port=port)))
    assert reply["error"] == (
        f"SGLang did not start: options.port: {port} is taken by another program"
    )
    assert not taken(free_port())


def test_arguments_become_flags() -> None:
    given = {"disable_radix_cache": True, "cuda": False, "size": -1, "x": {"a": 1}, "l": [1, 2]}
    assert flags(given) == [
        "--disable-radix-cache", "--size", "-1", "--x", '{"a": 1}', "--l", "1", "2",
    ]  # fmt: skip


def test_a_server_that_dies_ends_the_worker_with_its_last_words(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, die_at="30 + 40")
    assert ask(worker, hello(arm("pristine", launch="server")))["ok"]
    with pytest.raises(SystemExit, match=r"SGLang died: signal 9: IndexError: row 9"):
        ask(worker, batch("What is 30 + 40?"))


def test_prefixes_are_flushed_where_they_are_shared(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    assert ask(worker, hello(arm("pristine", launch="server", radix_cache=True)))["ok"]
    assert ask(worker, {"op": "reset"}) == {"ok": True, "cache_entries": 0}


def test_what_dead_workers_left_is_swept_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine, other = scratch.folder_of("a" * 16, "b"), scratch.folder_of("c" * 16, "d")
    for folder in (mine, other):
        (folder / "1" / "t").mkdir(parents=True)
    scratch.sweep("a" * 16)
    assert (mine.exists(), other.exists()) == (False, True)
