"""The worker's loop over its pipes, and the fake engine's promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from harness.backends.base import BackendError
from harness.backends.fake import FakeBackend, right_answer
from harness.backends.fake_options import FakeOptions, fake_options
from harness.backends.serve import answer
from harness.backends.table import command, make
from harness.store.errors import UsageError


def hello(**options: Any) -> dict[str, Any]:
    arm = {"role": "patched", "backend": "fake", "options": options}
    return {"op": "hello", "protocol": 1, "arm": arm, "model": {}, "task": {"max_tokens": 16},
            "threads": 1, "seed": "1"}  # fmt: skip


def batch(*prompts: str, number: int = 0) -> dict[str, Any]:
    items = [{"id": f"i{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
    return {"op": "generate", "id": number, "items": items, "timeout_s": 30.0}


def ask(backend: Any, request: Any) -> dict[str, Any]:
    return answer(backend, json.dumps(request).encode())[0]


def fake(**options: Any) -> FakeBackend:
    backend = FakeBackend()
    assert ask(backend, hello(**options))["ok"] is True
    return backend


def test_a_worker_speaks_the_wire_and_ends_with_its_input() -> None:
    requests = [hello(stray_print="noise"), {"op": "probe"}, batch("1 + 2"), {"op": "reset"}]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(
        [*command("fake", {})], input=lines, capture_output=True, text=True, check=True
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["ok"] for reply in replies] == [True] * 4
    assert replies[2]["results"][0]["text"] == " #### 3"
    assert "noise" in done.stderr


def test_prints_from_c_do_not_break_the_wire() -> None:
    code = (
        "import os\n"
        "from harness.backends.fake import FakeBackend\n"
        "from harness.backends.serve import serve\n"
        "class Loud(FakeBackend):\n"
        "    def reset(self):\n"
        "        os.write(1, b'raw\\n'); os.system('echo shell'); input_left = os.read(0, 10)\n"
        "        return {'cache_entries': len(input_left)}\n"
        "serve(Loud())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input='{"op": "reset"}\n{"op": "close"}\n',
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"ok": True, "cache_entries": 0}, {"ok": True},
    ]  # fmt: skip
    assert done.stderr.split() == ["raw", "shell"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (BackendError("oom", "device full"), "oom", "device full"),
        (MemoryError(), "oom", "MemoryError: MemoryError"),
        (ValueError("window:\n found -1"), "value", "window: found -1"),
        (KeyError("x"), "bug", "KeyError: 'x'"),
    ],
)
def test_every_failure_is_one_line(
    error: Exception, kind: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(FakeBackend):
        def reset(self) -> Any:
            raise error

    assert ask(Failing(), {"op": "reset"}) == {"ok": False, "kind": kind, "error": text}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("line", [b"", b"{", b'{"op": "dance"}', b"\xff\n"])
def test_nonsense_is_refused(line: bytes) -> None:
    reply, closing = answer(FakeBackend(), line)
    assert (reply["ok"], reply["kind"], closing) == (False, "value", False)


def test_another_protocol_is_refused() -> None:
    assert "protocol 2 is not 1" in ask(FakeBackend(), {**hello(), "protocol": 2})["error"]


def test_the_same_request_gets_the_same_reply() -> None:
    asked = batch("1 + 2", "Grüße", number=5)
    first, second = ask(fake(jitter=0.3), asked), ask(fake(jitter=0.3), asked)
    assert first == second
    assert ask(fake(jitter=0.3), batch("1 + 2", "Grüße", number=6))["timing"] != first["timing"]


def test_arms_agree_unless_asked_otherwise() -> None:
    ids = [ask(fake(**options), batch("1 + 2"))["results"][0]["token_ids"]
           for options in ({}, {"speedup": 3.0, "chunk": 4}, {"disagree_share": 1.0})]  # fmt: skip
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == len(ids[2])


def test_drift_and_warm_up_are_as_told() -> None:
    engine = fake(drift_per_visit=0.5, warmup_slow=2.0)
    times = [ask(engine, batch("a", number=n))["timing"]["decode_ns"] for n in range(3)]
    assert times == [16_000_000, 12_000_000, 18_000_000]


def test_a_prompt_cache_hits_until_it_is_reset() -> None:
    engine = fake(warm_cache_speedup=4.0)
    first, second = (ask(engine, batch("a")) for _ in range(2))
    assert (first["cache"]["hits"], second["cache"]["hits"]) == (0, 1)
    assert first["timing"]["decode_ns"] == 4 * second["timing"]["decode_ns"]
    assert ask(engine, {"op": "reset"})["cache_entries"] == 0
    assert ask(engine, batch("a"))["cache"]["hits"] == 0


def test_answers_are_right_for_the_share_asked_for() -> None:
    engine = fake(wrong_answer_share=0.25)
    prompts = [f"{n} + 1" for n in range(400)]
    results = ask(engine, batch(*prompts))["results"]
    right = sum(
        r["text"] == f" #### {right_answer(p)}" for r, p in zip(results, prompts, strict=True)
    )
    assert 270 <= right <= 330
    known = fake(answers={"i0": "42"})
    assert ask(known, batch("Why?"))["results"][0]["text"] == " #### 42"


@pytest.mark.parametrize("values", [{"speed": 1}, {"chunk": 1.5}, {"inert": 1}, {"chunk": True}])
def test_options_are_checked(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"options\.\w+: "):
        fake_options(values)


def test_options_take_whole_numbers_for_times() -> None:
    assert fake_options({"prefill_ms": 3, "nan_items": ["a"]}) == FakeOptions(
        prefill_ms=3, nan_items=("a",)
    )


def test_the_table_names_what_it_does_not_know() -> None:
    with pytest.raises(UsageError, match="backend: 'vapour' is not known; backends are fake"):
        command("vapour", {})
    with pytest.raises(UsageError, match="is not served"):
        make("process")
    with pytest.raises(UsageError, match=r"options\.command: found 'x', expected a list of words"):
        command("process", {"command": "x"})


def test_an_unknown_backend_is_one_line_on_standard_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness.run.worker", "vapour"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "backend: 'vapour' is not served; served are fake, looped, http, sglang\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_a_foreign_program_dies_with_the_harness() -> None:
    code = (
        "import subprocess, sys\n"
        "from harness.backends.table import command\n"
        "words = command('process', {'command': ['sleep', '600']})\n"
        "child = subprocess.Popen(words)\n"
        "import time; time.sleep(0.5)\n"
        "print(child.pid, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(int(done.stdout), 0)
            time.sleep(0.01)


def test_an_engine_with_a_self_test_says_so_and_answers_it() -> None:
    engine = FakeBackend()
    assert ask(engine, hello())["selftest"] is True
    reply = ask(engine, {"op": "selftest", "prompts": ["1 + 2"]})
    assert [check["ok"] for check in reply["checks"]] == [True]
    failing = ask(fake(selftest_fails=True), {"op": "selftest", "prompts": ["1 + 2"]})
    assert [check["ok"] for check in failing["checks"]] == [False]


def test_an_engine_without_a_self_test_refuses_the_request() -> None:
    class Plain:
        def hello(self, request: Any) -> Any:
            return {"backend": "plain", "versions": {}, "device": "cpu"}

    assert ask(Plain(), hello())["selftest"] is False
    assert "op 'selftest' is not known" in ask(Plain(), {"op": "selftest", "prompts": []})["error"]
