"""The worker around an engine: what it tells it, what it times, what it proves, how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.backends.sglang.arguments import Served, start_of
from harness.backends.sglang.child import cause
from harness.backends.sglang.cputime import Marks, cpu_ns
from harness.backends.sglang.options import sglang_options, treatment_of
from harness.backends.sglang.worker import SglangBackend
from tests.sglang.fakes import FULL, MODEL, RIPE, arm, ask, batch, hello, pretend
from tests.sglang.nanbeige import make_nanbeige

TOKEN = (1 + 2 * 32 + 1) * 2 * 4 * 32 * 4
"""Bytes of a token of the embedded model under the full cache, in float32."""
POOL = (8 * 512 + 1) * TOKEN
PROMPTS = ("What is 1 + 2?", "What is 30 + 40?")


@pytest.mark.parametrize("launch", ["offline", "server"])
def test_a_batch_goes_through_an_engine(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch, launch: str
) -> None:
    pretend(monkeypatch, ms=5)
    greeting = ask(worker, hello(arm("pristine", launch=launch)))
    assert greeting["ok"], greeting
    assert greeting["patch"] == {"claims": False, "name": None}
    assert greeting["engine"]["arguments"]["attention_backend"] == "torch_native"
    assert str(greeting["engine"]["arguments"]["chunked_prefill_size"]) == "-1"
    assert greeting["engine"]["hooks"] == ["runner.forward|after|harness_observer"]
    shown = ask(worker, {"op": "probe"})
    assert len(shown["fingerprint"]) == 16
    assert shown["counters"] == {}
    assert ask(worker, {"op": "reset"}) == {"ok": True, "cache_entries": 0}
    reply = ask(worker, batch(*PROMPTS))
    assert [r["text"] for r in reply["results"]] == [" #### 3", " #### 70"]
    assert [r["finish"] for r in reply["results"]] == ["stop", "stop"]
    assert [r["token_ids"][-1] for r in reply["results"]] == [256, 256]
    timing, counters = reply["timing"], [r["counters"] for r in reply["results"]]
    assert timing["prefill_ns"] + timing["decode_ns"] == timing["total_ns"]
    assert timing["total_cpu_ns"] > 0
    assert timing["prefill_cpu_ns"] + timing["decode_cpu_ns"] == timing["total_cpu_ns"]
    assert all(c["ttft_ns"] < c["e2e_ns"] for c in counters)
    assert all(2e6 < c["tpot_ns"] < 2e8 for c in counters)
    assert reply["counters"]["forwards"] >= 4
    assert reply["patch_counters"] == {}
    assert reply["cache"] == {"entries_before": 0, "hits": 0, "peak_bytes": POOL}
    held = reply["results"][0]
    tokens = held["prompt_tokens"] + len(held["token_ids"]) - 1
    assert held["cache_bytes"] == tokens * TOKEN


def test_the_patch_is_claimed_because_the_engine_shows_it(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    greeting = ask(worker, hello(arm("patched")))
    assert greeting["patch"]["claims"] is True
    assert greeting["patch"]["name"].startswith("ripe by harness_ripe, window 4")
    assert greeting["engine"]["arguments"]["attention_backend"] == "ripe_torch_native"
    assert ask(worker, {"op": "probe"})["counters"]["ripe_reads"] > 0
    assert ask(worker, batch(*PROMPTS))["patch_counters"]["ripe_reads"] > 0


def test_a_hook_of_somebody_else_is_a_patch(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, more_hooks=["sampler.forward|replace|turbo"])
    greeting = ask(worker, hello(arm("pristine")))
    assert greeting["patch"] == {"claims": True, "name": "sampler.forward|replace|turbo"}


def test_an_engine_that_reports_nothing_proves_nothing(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.backends.sglang.evidence._PATIENCE_S", 0.1)
    pretend(monkeypatch, silent_observer=True)
    reply = ask(worker, hello(arm("pristine")))
    assert "its plugin harness_observer did not load" in reply["error"]


@pytest.mark.parametrize(
    ("vices", "said"),
    [
        ({"start_error": "no such thing"}, "exit status 1: RuntimeError: no such thing"),
        ({"broken_plugins": ["harness_ripe"]}, "invalid choice: 'ripe_torch_native'"),
        ({"start_hangs": True}, "no answer within 2 s"),
    ],
)
def test_a_start_that_fails_says_why(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch, vices: dict[str, Any], said: str
) -> None:
    pretend(monkeypatch, **vices)
    patience = 2 if "start_hangs" in vices else 60
    reply = ask(worker, hello(arm("patched", start_timeout_s=patience)))
    assert reply["ok"] is False
    assert reply["error"].startswith("SGLang did not start: ")
    assert said in reply["error"]


def test_a_death_ends_the_worker_with_the_engines_last_words(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, die_at="30 + 40")
    ask(worker, hello(arm("pristine")))
    with pytest.raises(SystemExit, match=r"SGLang died: signal 9: IndexError: row 9"):
        ask(worker, batch(*PROMPTS))
    assert "IndexError: row 9" in capfd.readouterr().err


def test_full_memory_is_an_outcome_and_the_engine_is_replaced(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, die_at="30 + 40", die_memory=True, once=str(tmp_path / "once"))
    ask(worker, hello(arm("pristine")))
    ask(worker, {"op": "probe"})
    reply = ask(worker, batch(*PROMPTS))
    assert (reply["ok"], reply["kind"]) == (False, "oom")
    assert "OutOfMemoryError: full" in reply["error"]
    assert ask(worker, {"op": "reset"})["ok"] is True
    assert ask(worker, batch(*PROMPTS))["ok"] is True


@pytest.mark.parametrize("launch", ["offline", "server"])
def test_a_hanging_item_is_late_and_the_next_visit_works(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch, launch: str
) -> None:
    pretend(monkeypatch, hang_at="30 + 40")
    ask(worker, hello(arm("pristine", launch=launch)))
    ask(worker, {"op": "probe"})
    reply = ask(worker, batch(*PROMPTS, timeout_s=0.5))
    assert [r["status"] for r in reply["results"]] == ["timeout", "timeout"]
    assert min(reply["timing"][name] for name in ("decode_ns", "decode_cpu_ns")) >= 5e8
    assert ask(worker, {"op": "reset"})["ok"] is True
    assert ask(worker, batch(PROMPTS[0]))["results"][0]["text"] == " #### 3"


def test_retractions_and_cached_prefixes_are_told(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, retract=True, cached=5)
    ask(worker, hello(arm("pristine")))
    reply = ask(worker, batch(*PROMPTS))
    assert {r["status"] for r in reply["results"]} == {"error"}
    assert reply["results"][0]["error"].startswith("retracted 1 times; raise options.max_total")
    assert reply["cache"]["hits"] == 2


def test_a_batch_beyond_the_engines_requests_is_refused(
    worker: SglangBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    ask(worker, hello(arm("pristine", max_running_requests=1)))
    assert "larger than options.max_running_requests = 1" in ask(worker, batch(*PROMPTS))["error"]


def test_a_start_is_told_what_the_arm_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "turbo")
    from harness.backends.sglang.options import checkpoint

    served = Served(checkpoint("tiny_ripe"), "cpu", "float32", 3)
    options = sglang_options({"max_running_requests": 4, "server_args": {"watchdog_timeout": 9}})
    exact = treatment_of({"cache": {**RIPE, "prefill": "exact"}}, MODEL)
    start = start_of(served, options, exact, "7", tmp_path / "a")
    assert start.environment["SGLANG_PLUGINS"] == "harness_observer,harness_ripe"
    assert json.loads(start.environment["HARNESS_RIPE"]) == {
        "window": 4, "loops": 32, "requests": 4, "prefill": "exact",
    }  # fmt: skip
    assert start.environment["OMP_NUM_THREADS"] == "3"
    assert start.arguments["chunked_prefill_size"] == 5
    assert start.arguments["max_total_tokens"] == 4 * 512
    assert start.arguments["watchdog_timeout"] == 9
    assert (tmp_path / "a" / "view" / "config.json").is_file()
    full = treatment_of({"cache": FULL}, MODEL)
    plain = start_of(served, options, full, "7", tmp_path / "b")
    assert plain.environment["SGLANG_PLUGINS"] == "harness_observer"
    assert "HARNESS_RIPE" not in plain.environment
    assert "dist/ripe" not in plain.environment["PYTHONPATH"]
    own = Served(make_nanbeige(tmp_path / "nanbeige"), "cpu", "float32", 1)
    native = start_of(own, options, full, "7", tmp_path / "c")
    assert "SGLANG_EXTERNAL_MODEL_PACKAGE" not in native.environment
    assert native.arguments["model_path"] == str(tmp_path / "nanbeige")
    with pytest.raises(ValueError, match="needs a checkpoint in the layout of RavenForCausalLM"):
        start_of(own, options, exact, "7", tmp_path / "d")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"launch": "docker"}, "options.launch: found 'docker'"),
        ({"max_running_requests": 0}, "options.max_running_requests: found 0, expected 1"),
        ({"radix_cache": 1.5}, "options.radix_cache: found 1.5"),
        ({"plugins": "turbo"}, "options.plugins"),
        ({"server_args": {"port": 1}}, "options.server_args.port: is set by the harness"),
        ({"speed": 1}, "options.speed: not known"),
        ({"start_timeout_s": 0}, "options.start_timeout_s"),
    ],
)
def test_options_are_checked(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sglang_options(values)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decode": {"kind": "speculative"}}, "backend sglang is sequential"),
        ({"cache": {"policy": "compress", "prefill": "exact"}}, "backend sglang has full"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        treatment_of(changes, MODEL)


def test_the_cause_is_the_last_error_that_names_no_other() -> None:
    lines = [
        "Traceback (most recent call last):",
        "  File x, line 3",
        "harness.backends.sglang.ripe.options.RipeError: radix cache: found it on",
        "",
        "[2026-11-30] SIGQUIT received. signum=None. It usually means one child failed.",
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -3).",
        "  warnings.warn(",
    ]
    assert cause(lines).endswith("RipeError: radix cache: found it on")
    assert cause(["", "usage: x", "x: error: unknown argument --y"]) == (
        "x: error: unknown argument --y"
    )
    crashed = "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT"
    assert cause([crashed, "SIGQUIT received. It usually means one child failed.", "x"]) == crashed
    assert cause(["hello", ""]) == "hello"
    assert cause([]) == ""


def test_cpu_time_is_that_of_all_threads() -> None:
    own = [psutil.Process().pid]
    marks, before = Marks(own), cpu_ns(own)
    sum(n * n for n in range(200_000))
    assert cpu_ns(own) > before
    prefill, decode, total = marks.end()
    assert prefill == decode == total > 0
    assert cpu_ns([2**22 + 1]) == 0
