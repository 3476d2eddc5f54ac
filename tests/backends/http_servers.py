"""Small servers that behave like vLLM, TGI, SGLang and plain OpenAI-compatible ones, with vices.

A token is one character, and its id is the character's code.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.backends.fake import right_answer


@dataclass
class Ways:
    """How a server behaves."""

    kind: str = "vllm"
    """vllm, tgi, sglang, or plain."""
    chunk: int = 1
    """Tokens in one event."""
    token_ms: float = 0.0
    ids: bool = True
    """vLLM: whether `return_token_ids` works; SGLang: whether ids are sent."""
    log_probs: bool = True
    usage: bool = True
    strict: bool = False
    """Unknown request fields are refused with 400."""
    incremental: bool = False
    """SGLang: each event holds only the new tokens."""
    flush: int = 200
    """Status of the request to empty the cache; 404: there is no such path."""
    caches: bool = False
    """A prompt seen before is reported as cached until the cache is emptied."""
    hang: str = ""
    """Prompts with this text never get an answer; "*": none does."""
    drip: str = ""
    """Prompts with this text get a stream that goes on for ever without an event."""
    refuse: int = 0
    """Requests that get 503 first."""
    status: int = 200
    body: str = ""
    """Answer to every generation where the status is not 200."""
    break_after: int | None = None
    """Events after which the connection is cut."""
    event_error: str = ""
    """An error inside the stream after the first event."""
    abort: str = ""
    """SGLang: prompts with this text are aborted with a message that says out of memory."""
    retract: bool = False
    extra_usage: int = 0
    """What usage counts too many."""
    key: str | None = None
    """Bearer token that is demanded."""
    redirect: bool = False
    huge: bool = False
    models: tuple[str, ...] = ("tiny",)


@dataclass
class Server:
    url: str
    ways: Ways
    requests: list[dict[str, Any]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    refused: int = 0
    flushed: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def serving(**ways: Any) -> Iterator[Server]:
    """A server on a free port of the loopback, gone afterwards."""

    class Handler(_Handler):
        pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    Handler.told = Server(f"http://127.0.0.1:{http.server_address[1]}", Ways(**ways))
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Handler.told
    finally:
        Handler.told.stop.set()
        http.shutdown()
        http.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    told: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        ways = self.told.ways
        known = {
            "vllm": {"/version": {"version": "0.9.1"}},
            "tgi": {"/info": {"version": "3.3.4", "model_id": "tiny", "max_input_tokens": 512}},
            "sglang": {"/server_info": {"version": "0.5.23", "attention_backend": "triton",
                                        "model_path": "/srv/secret/tiny"}},
            "plain": {},
        }[ways.kind]  # fmt: skip
        models = {"data": [{"id": name} for name in ways.models]}
        found = {**known, "/v1/models": models, "/health": {}}.get(self.path)
        self._json(200 if found is not None else 404, found or {"detail": "Not Found"})

    def do_POST(self) -> None:
        told, ways = self.told, self.told.ways
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        if self.path in ("/flush_cache", "/reset_prefix_cache"):
            if ways.flush == 200:
                told.seen.clear()
                told.flushed += 1
            self._json(ways.flush, {"said": "cache"})
            return
        told.requests.append(body)
        if ways.key is not None and self.headers.get("Authorization") != f"Bearer {ways.key}":
            self._json(401, {"error": f"bad key {self.headers.get('Authorization')}"})
        elif ways.redirect:
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif told.refused < ways.refuse:
            told.refused += 1
            self._json(503, {"error": "overloaded"})
        elif ways.status != 200:
            self._send(ways.status, ways.body.encode(), "text/plain")
        elif ways.strict and set(body) & {"return_token_ids", "logprobs"}:
            self._json(400, {"error": {"message": "unknown field"}})
        else:
            with contextlib.suppress(OSError):
                self._generate(body)

    def _generate(self, body: dict[str, Any]) -> None:
        ways = self.told.ways
        prompts = body.get("prompt", body.get("text"))
        prompts = [prompts] if isinstance(prompts, str) else prompts
        if ways.hang and any(ways.hang == "*" or ways.hang in p for p in prompts):
            self.told.stop.wait(60)
            return
        events = _sglang if "text" in body else _openai
        made = events(self.told, body, prompts)
        if not body.get("stream"):
            self._json(200, _whole(list(made), listed="text" in body))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if ways.drip and any(ways.drip in p for p in prompts):
            while not self.told.stop.wait(0.02):
                self._chunk(b":")
        for place, event in enumerate(made):
            if ways.break_after is not None and place == ways.break_after:
                self.close_connection = True
                self.connection.close()
                return
            if ways.event_error and place == 1:
                event = {"error": {"message": ways.event_error}}
            if ways.huge:
                self._chunk(b"data: " + b"x" * (20 << 20))
            self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
            time.sleep(ways.token_ms / 1000)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _answer(prompt: str, limit: int) -> str:
    return f" #### {right_answer(prompt)}"[:limit]


def _cached(told: Server, prompt: str) -> int:
    hit = told.ways.caches and prompt in told.seen
    told.seen.add(prompt)
    return len(prompt) if hit else 0


def _openai(told: Server, body: dict[str, Any], prompts: list[str]) -> Iterator[dict[str, Any]]:
    ways, (prompt,) = told.ways, prompts
    text, limit = _answer(prompt, body["max_tokens"]), body["max_tokens"]
    cached = _cached(told, prompt)
    for start in range(0, len(text), ways.chunk):
        piece = text[start : start + ways.chunk]
        choice: dict[str, Any] = {"index": 0, "text": piece, "finish_reason": None}
        if body.get("return_token_ids") and ways.ids and ways.kind == "vllm":
            choice["token_ids"] = [ord(c) for c in piece]
        if body.get("logprobs") and ways.log_probs:
            log_probs = [-ord(c) / 64 for c in piece]
            choice["logprobs"] = {"tokens": list(piece), "token_logprobs": log_probs}
        if start + ways.chunk >= len(text):
            choice["finish_reason"] = "length" if len(text) >= limit else "stop"
        yield {"choices": [choice], "usage": None}
    if ways.usage and (not body["stream"] or (body.get("stream_options") or {})["include_usage"]):
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(text) + ways.extra_usage}
        details = {"prompt_tokens_details": {"cached_tokens": cached}} if ways.caches else {}
        yield {"choices": [], "usage": {**usage, **details}}


def _sglang(told: Server, body: dict[str, Any], prompts: list[str]) -> Iterator[dict[str, Any]]:
    ways, limit = told.ways, body["sampling_params"]["max_new_tokens"]
    texts = [_answer(prompt, limit) for prompt in prompts]
    cached = [_cached(told, prompt) for prompt in prompts]
    for start in range(0, max(map(len, texts)), ways.chunk):
        for place, text in reversed(list(enumerate(texts))):
            if start >= len(text):
                continue
            end = min(start + ways.chunk, len(text))
            first = start if ways.incremental else 0
            done = end == len(text)
            reason: Any = {"type": "length" if len(text) >= limit else "stop"} if done else None
            if ways.abort and ways.abort in prompts[place]:
                reason = {"type": "abort", "message": "scheduler: KV cache out of memory"}
            meta = {
                "prompt_tokens": len(prompts[place]), "completion_tokens": end,
                "cached_tokens": cached[place], "num_retractions": int(ways.retract),
                "finish_reason": reason,
            }  # fmt: skip
            if body.get("return_logprob"):
                rows = [[-ord(c) / 64, ord(c), None] for c in text[first:end]]
                meta["output_token_logprobs"] = rows
            ids = {"output_ids": [ord(c) for c in text[first:end]]} if ways.ids else {}
            yield {"text": text[first:end], **ids, "meta_info": meta, "index": place}


def _whole(events: list[dict[str, Any]], *, listed: bool) -> Any:
    if listed:
        last = {event["index"]: event for event in events}
        rows = [last[place] for place in sorted(last)]
        return [{k: v for k, v in row.items() if k != "index"} for row in rows]
    choices = [event["choices"][0] for event in events if event["choices"]]
    merged = {**choices[-1], "text": "".join(choice["text"] for choice in choices)}
    if "token_ids" in merged:
        merged["token_ids"] = [one for choice in choices for one in choice["token_ids"]]
    if "logprobs" in merged:
        merged["logprobs"] = {
            name: [one for choice in choices for one in choice["logprobs"][name]]
            for name in ("tokens", "token_logprobs")
        }
    return {"choices": [merged], "usage": events[-1]["usage"]}
