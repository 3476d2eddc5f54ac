"""The HTTP client against servers that behave like the real ones, and against their vices."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from harness.backends.fake import right_answer
from harness.backends.http.answers import Answer
from harness.backends.http.backend import PROBE, HttpBackend
from harness.backends.http.client import EndpointError
from harness.backends.http.dialects import Native
from harness.backends.http.options import http_options
from harness.backends.serve import answer
from tests.backends.http_servers import Server, serving

PROMPTS = ("What is 1 + 2?", "What is 30 + 40?", "Grüße: 5 + 6")


def hello(server: Server, role: str = "pristine", **options: Any) -> dict[str, Any]:
    given = {"url": server.url, "hello_timeout_s": 5.0, **options}
    if server.ways.kind == "sglang":
        given.setdefault("api", "sglang")
    if server.ways.kind in ("tgi", "plain"):
        given.setdefault("attest", {"no_cache": True})
    arm = {"role": role, "backend": "http", "options": given}
    task = {"max_tokens": 16, "stop": "\n"}
    return {"op": "hello", "protocol": 1, "arm": arm, "model": {}, "task": task, "threads": 1,
            "seed": "1"}  # fmt: skip


def ask(backend: HttpBackend, request: Any) -> dict[str, Any]:
    return answer(backend, json.dumps(request).encode())[0]


def batch(*prompts: str, timeout_s: float = 5.0) -> dict[str, Any]:
    items = [{"id": f"i{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
    return {"op": "generate", "id": 1, "items": items, "timeout_s": timeout_s}


def client(server: Server, role: str = "pristine", **options: Any) -> HttpBackend:
    backend = HttpBackend()
    reply = ask(backend, hello(server, role, **options))
    assert reply["ok"], reply
    return backend


def refusal(server: Server, role: str = "pristine", **options: Any) -> str:
    reply = ask(HttpBackend(), hello(server, role, **options))
    assert reply["ok"] is False, reply
    return str(reply["error"])


def texts(reply: dict[str, Any]) -> list[str]:
    return [result["text"] for result in reply["results"]]


def ids(reply: dict[str, Any]) -> list[list[int]]:
    return [result["token_ids"] for result in reply["results"]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("ways", "source"),
    [
        ({"kind": "vllm"}, "the server's own"),
        ({"kind": "vllm", "chunk": 3}, "the server's own"),
        ({"kind": "sglang"}, "the server's own"),
        ({"kind": "sglang", "chunk": 2, "incremental": True}, "the server's own"),
        ({"kind": "tgi", "log_probs": False}, "made from text and usage count"),
        ({"kind": "plain", "strict": True}, "made from text and usage count"),
        ({"kind": "plain"}, "hashes of the token texts"),
    ],
)
def test_every_kind_of_server_is_counted_in_tokens(
    ways: dict[str, Any], source: str, stream: bool
) -> None:
    if not stream and ways.get("incremental"):
        pytest.skip("a whole answer has no increments")
    if not stream and source.startswith("hashes"):
        source = "hashes"
    with serving(**ways) as server:
        backend = HttpBackend()
        greeting = ask(backend, hello(server, stream=stream))
        assert greeting["ok"], greeting
        assert greeting["engine"]["token_ids"].startswith(source)
        reply = ask(backend, batch(*PROMPTS))
    wanted = [f" #### {right_answer(prompt)}" for prompt in PROMPTS]
    assert texts(reply) == wanted
    assert [len(one) for one in ids(reply)] == [len(text) for text in wanted]
    if source == "the server's own":
        assert ids(reply) == [[ord(c) for c in text] for text in wanted]
    assert [r["prompt_tokens"] for r in reply["results"]] == [len(p) for p in PROMPTS]
    assert {r["finish"] for r in reply["results"]} == {"stop"}
    assert reply["timing"]["total_cpu_ns"] == 0


def test_what_the_server_says_of_itself_is_recorded_without_its_folders() -> None:
    with serving(kind="sglang", models=("/srv/secret/tiny",)) as server:
        greeting = ask(HttpBackend(), hello(server))
    assert greeting["versions"]["sglang"] == "0.5.23"
    assert greeting["engine"]["settings"] == {"attention_backend": "triton"}
    assert greeting["engine"]["model"] == "tiny"
    assert "secret" not in json.dumps(greeting)


def test_a_batch_is_on_its_way_at_once() -> None:
    with serving(token_ms=20) as server:
        backend = client(server)
        one = ask(backend, batch(PROMPTS[0]))["timing"]["total_ns"]
        eight = ask(backend, batch(*PROMPTS, *PROMPTS, *PROMPTS[:2]))["timing"]["total_ns"]
    assert eight < 4 * one


def test_times_are_the_requests_own() -> None:
    with serving(token_ms=20) as server:
        reply = ask(client(server), batch(*PROMPTS))
    timing, counters = reply["timing"], [r["counters"] for r in reply["results"]]
    assert timing["prefill_ns"] + timing["decode_ns"] == timing["total_ns"]
    assert max(c["ttft_ns"] for c in counters) == timing["prefill_ns"]
    for counter in counters:
        assert 15e6 < counter["tpot_ns"] < 60e6
        assert counter["ttft_ns"] < counter["e2e_ns"] <= timing["total_ns"]
        assert counter["longest_gap_ns"] >= counter["tpot_ns"]


def test_chunks_are_no_tokens() -> None:
    with serving(kind="plain", chunk=3, log_probs=False) as server:
        reply = ask(client(server), batch(PROMPTS[0]))
    assert len(ids(reply)[0]) == len(texts(reply)[0]) == 7
    assert reply["results"][0]["counters"]["chunks"] == 3


def test_a_server_that_tells_no_count_is_refused() -> None:
    with serving(kind="plain", log_probs=False, usage=False) as server:
        assert "its tokens can't be counted; chunks of text are no tokens" in refusal(server)


def test_ids_and_usage_must_agree() -> None:
    with serving(extra_usage=2) as server:
        reply = ask(client(server), batch(PROMPTS[0]))
    assert reply["ok"] is False
    assert reply["error"] == "token ids: found 7, but usage says 9"


def test_equal_answers_have_equal_ids_whatever_they_are_made_from() -> None:
    for ways in ({"kind": "plain", "log_probs": False}, {"kind": "plain"}):
        with serving(**ways) as server, serving(**{**ways, "chunk": 4}) as other:
            first, second = (ask(client(s), batch(*PROMPTS)) for s in (server, other))
        assert ids(first) == ids(second)
        assert len({tuple(one) for one in ids(first)}) == 3


def test_the_fingerprint_is_the_chosen_log_probs() -> None:
    for kind in ("vllm", "sglang"):
        with serving(kind=kind) as server:
            shown = ask(client(server), {"op": "probe"})
        answer_to_probe = f" #### {right_answer(PROBE)}"
        assert shown["fingerprint"] == [-ord(c) / 64 for c in answer_to_probe]
    with serving(log_probs=False) as server:
        assert ask(client(server), {"op": "probe"})["fingerprint"] is None
    with serving() as server:
        assert ask(client(server, fingerprint=False), {"op": "probe"})["fingerprint"] is None


def test_a_hanging_item_times_out_and_the_others_count() -> None:
    with serving(hang="30 + 40") as server:
        began = time.monotonic()
        reply = ask(client(server), batch(*PROMPTS, timeout_s=0.4))
        assert time.monotonic() - began < 3
    assert [r["status"] for r in reply["results"]] == ["ok", "timeout", "ok"]
    assert reply["results"][1]["error"] == "no answer within 0.4 s"
    assert min(reply["timing"][f"{phase}_ns"] for phase in ("prefill", "decode", "total")) >= 4e8


def test_a_stream_without_end_and_without_lines_times_out() -> None:
    with serving(drip="30 + 40") as server:
        began = time.monotonic()
        reply = ask(client(server), batch(*PROMPTS, timeout_s=0.4))
        assert time.monotonic() - began < 3
    assert [r["status"] for r in reply["results"]] == ["ok", "timeout", "ok"]


def test_health_without_a_generation_is_no_start() -> None:
    with serving(hang="*") as server:
        said = refusal(server, hello_timeout_s=0.3)
    assert said.endswith("the server is there but did not generate within 0.3 s")


def test_retries_are_counted_and_only_before_the_first_token() -> None:
    with serving() as server:
        backend = client(server, retries=2)
        server.ways.refuse = 2
        reply = ask(backend, batch(PROMPTS[0]))
        assert reply["results"][0]["counters"]["retries"] == 2
        assert reply["counters"] == {"retries": 2}
        assert texts(reply) == [" #### 3"]
        server.ways.break_after = 2
        reply = ask(backend, batch(PROMPTS[0]))
        assert reply["ok"] is False


@pytest.mark.parametrize(
    ("ways", "kind", "said"),
    [
        ({"status": 500, "body": "boom\n" + "x" * 900}, "bug", "HTTP 500: boom xxx"),
        ({"status": 500, "body": "CUDA out of memory. Tried"}, "oom", "HTTP 500: CUDA out of"),
        ({"status": 503, "body": ""}, "bug", "HTTP 503: no message"),
        ({"redirect": True}, "bug", "HTTP 307: redirects are not followed"),
        ({"break_after": 2}, "bug", "the "),
        ({"event_error": "engine died"}, "bug", "the server reports: engine died"),
        ({"event_error": "OutOfMemoryError"}, "oom", "the server reports: OutOfMemoryError"),
        ({"huge": True}, "bug", "the answer has over 64 MiB, or a line"),
    ],
)
def test_a_batch_that_fails_as_one_is_one_line(ways: dict[str, Any], kind: str, said: str) -> None:
    with serving() as server:
        backend = client(server)
        for name, value in ways.items():
            setattr(server.ways, name, value)
        reply = ask(backend, batch(*PROMPTS))
    assert (reply["ok"], reply["kind"]) == (False, kind)
    assert reply["error"].startswith(said)
    assert len(reply["error"]) < 260
    assert "\n" not in reply["error"]


def test_one_aborted_item_is_an_outcome_of_its_own() -> None:
    with serving(kind="sglang", abort="30 + 40") as server:
        reply = ask(client(server), batch(*PROMPTS))
    assert [r["status"] for r in reply["results"]] == ["ok", "oom", "ok"]
    assert reply["results"][1]["error"] == "scheduler: KV cache out of memory"


def test_a_server_that_is_gone_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    gone = Server(f"http://127.0.0.1:{port}", serving_ways())
    assert refusal(gone) == f"127.0.0.1:{port}: connection refused; no server listens there"
    with serving() as server:
        backend = client(server)
    reply = ask(backend, batch(*PROMPTS))
    assert reply["error"].endswith("connection refused; no server listens there")


def serving_ways() -> Any:
    from tests.backends.http_servers import Ways

    return Ways()


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_caches_are_emptied_and_their_hits_told(kind: str) -> None:
    with serving(kind=kind, caches=True) as server:
        backend = client(server)
        first, warm = (ask(backend, batch(*PROMPTS)) for _ in range(2))
        assert (first["cache"]["hits"], warm["cache"]["hits"]) == (0, 3)
        assert warm["results"][0]["counters"]["cached_tokens"] == len(PROMPTS[0])
        assert ask(backend, {"op": "reset"}) == {"ok": True, "cache_entries": 0}
        assert ask(backend, batch(*PROMPTS))["cache"]["hits"] == 0
        server.ways.flush = 400
        assert ask(backend, {"op": "reset"})["ok"] is False


def test_a_cache_that_nobody_vouches_for_is_refused() -> None:
    with serving(kind="plain") as server:
        assert "says" not in refusal(server, attest={})
        assert "options.attest: {no_cache: true}" in refusal(server, attest={})
    with serving(flush=404) as server:
        assert "neither empties its prefix cache" in refusal(server)
        greeting = ask(HttpBackend(), hello(server, attest={"no_cache": True}))
    assert greeting["engine"]["attested_by_the_user"] == ["no prefix cache"]


def test_an_attested_patch_says_whose_word_it_is() -> None:
    with serving() as server:
        backend = HttpBackend()
        greeting = ask(backend, hello(server, "patched", attest={"patch": "fast"}))
        assert greeting["patch"] == {"claims": True, "name": "fast (attested_by_the_user)"}
        assert ask(backend, batch(*PROMPTS))["patch_counters"] == {"attested_by_the_user": 3}
        assert "a pristine arm has no patch" in refusal(server, attest={"patch": "fast"})


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", "s3cr3t-key")
    with serving(key="s3cr3t-key") as server:
        greeting = ask(HttpBackend(), hello(server, key_env="TINY_KEY"))
        assert "s3cr3t" not in json.dumps(greeting)
    with serving(key="another") as server:
        said = refusal(server, key_env="TINY_KEY")
        assert said == 'HTTP 401: {"error": "bad key Bearer <key>"}'
        assert "NO_KEY is not set" in refusal(server, key_env="NO_KEY")


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving() as server:
        assert texts(ask(client(server), batch(PROMPTS[0]))) == [" #### 3"]


def test_an_unserved_model_is_named() -> None:
    with serving(models=("a", "b")) as server:
        assert refusal(server, model="c") == "options.model: c is not served; served are a, b"
        assert "2 models are served" in refusal(server)


def test_a_list_ahead_of_its_count_is_cut_to_it() -> None:
    found = Answer()
    for ids, total in (([7, 8], 1), ([7, 8], 2), ([7, 8, 9, 5], 3), ([7, 8, 9, 5], 4)):
        rows = [[-token / 8, token, None] for token in ids]
        meta = {"completion_tokens": total, "output_token_logprobs": rows}
        Native().take({"output_ids": ids, "meta_info": meta}, [found], total)
        assert found.ids == ids[:total]
        assert found.log_probs == [-token / 8 for token in ids[:total]]
    assert found.stamps == [(1, 1), (2, 2), (3, 3), (4, 4)]
    with pytest.raises(EndpointError, match="found 1 after 4, the server counts 9"):
        Native().take({"output_ids": [1], "meta_info": {"completion_tokens": 9}}, [found], 9)


def test_extra_fields_reach_the_server() -> None:
    with serving() as server:
        client(server, extra={"top_k": 1})
        assert server.requests[-1]["top_k"] == 1
    with serving(kind="sglang") as server:
        client(server, extra={"sampling_params": {"top_k": 1}})
        assert server.requests[-1]["sampling_params"]["top_k"] == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "options.url: found None"),
        ({"url": "127.0.0.1:80"}, "options.url: found"),
        ({"url": "http://me:pw@host/"}, "options.url: holds credentials"),
        ({"url": "http://h:99999"}, "options.url: found"),
        ({"url": "http://h", "api": "grpc"}, "options.api: found 'grpc', expected openai or"),
        ({"url": "http://h", "retries": -1}, "options.retries"),
        ({"url": "http://h", "key_env": "sk-123"}, "options.key_env: expected the name"),
        ({"url": "http://h", "extra": {"stream": False}}, "options.extra.stream: is set by"),
        ({"url": "http://h", "attest": {"speed": True}}, "options.attest"),
        ({"url": "http://h", "speed": 2}, "options.speed: not known"),
        ({"url": "http://h", "stream": 1}, "options.stream: found 1, expected bool"),
        ({"url": "http://h", "hello_timeout_s": 0}, "options.hello_timeout_s"),
    ],
)
def test_options_are_checked(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        http_options(values)
