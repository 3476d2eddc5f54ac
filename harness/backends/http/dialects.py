"""What two families of servers are sent, and how their events read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.backends.http.answers import Answer, grown
from harness.backends.http.client import EndpointError, Kind, out_of_memory

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request and the places in the batch that it answers."""

    path: str
    body: Json
    places: tuple[int, ...]


@dataclass(frozen=True)
class Ask:
    """How a batch is generated."""

    max_tokens: int
    stop: str
    stream: bool
    want: str
    """ids, logprobs or usage; anything else asks for nothing special."""
    log_probs: bool = False
    extra: Mapping[str, Any] | None = None


class Dialect(Protocol):
    """One family of servers."""

    def calls(self, prompts: Sequence[str], ask: Ask) -> list[Call]:
        """Return the requests of a batch."""
        ...

    def take(self, event: Json, answers: Sequence[Answer], now_ns: int) -> None:
        """Add an event to the answers of its call. Raises EndpointError for an error in it."""
        ...


class OpenAi:
    """`/v1/completions`: vLLM, TGI, llama.cpp, SGLang and whoever else speaks it."""

    path = "/v1/completions"

    def __init__(self, model: str | None) -> None:
        self.model = model

    def calls(self, prompts: Sequence[str], ask: Ask) -> list[Call]:
        """One request per prompt: usage is told per request, so a shared one hides each count."""
        body: Json = {"temperature": 0, "max_tokens": ask.max_tokens, "stream": ask.stream}
        if self.model is not None:
            body["model"] = self.model
        if ask.stop:
            body["stop"] = [ask.stop]
        if ask.stream:
            body["stream_options"] = {"include_usage": True}
        if ask.want == "ids":
            body["return_token_ids"] = True
        if ask.log_probs or ask.want == "logprobs":
            body["logprobs"] = 1
        body |= ask.extra or {}
        return [
            Call(self.path, {**body, "prompt": prompt}, (place,))
            for place, prompt in enumerate(prompts)
        ]

    def take(self, event: Json, answers: Sequence[Answer], now_ns: int) -> None:
        """Read a chunk or a whole answer; both have the same shape."""
        check_error(event)
        answer = answers[0]
        before = (len(answer.ids), len(answer.words), len(answer.text))
        self._usage(event.get("usage"), answer)
        for choice in _list(event.get("choices")):
            answer.text += str(choice.get("text") or "")
            answer.ids = answer.ids + _ints(choice.get("token_ids"))
            self._log_probs(choice.get("logprobs"), answer)
            if choice.get("finish_reason"):
                answer.finish = str(choice["finish_reason"])
        if (len(answer.ids), len(answer.words), len(answer.text)) != before:
            answer.stamp(now_ns)

    def _usage(self, usage: Any, answer: Answer) -> None:
        if not isinstance(usage, dict):
            return
        answer.prompt_tokens = _natural(usage.get("prompt_tokens"), answer.prompt_tokens)
        answer.completion_tokens = _natural(
            usage.get("completion_tokens"), answer.completion_tokens
        )
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            answer.cached_tokens = _natural(details.get("cached_tokens"), answer.cached_tokens)

    def _log_probs(self, found: Any, answer: Answer) -> None:
        if not isinstance(found, dict):
            return
        answer.words += [str(token) for token in found.get("tokens") or []]
        answer.log_probs += _floats(found.get("token_logprobs"))


class Native:
    """SGLang's `/generate`: the batch is one request, so that the engine gets it as one."""

    path = "/generate"

    def calls(self, prompts: Sequence[str], ask: Ask) -> list[Call]:
        """One request for the whole batch."""
        return self.request({"text": list(prompts)}, {"stop": [ask.stop] if ask.stop else []}, ask)

    def request(self, prompts: Json, sampling: Json, ask: Ask) -> list[Call]:
        """Return the one request for prompts given as texts or as ids."""
        (batch,) = prompts.values()
        extra = dict(ask.extra or {})
        sampling |= {"temperature": 0, "max_new_tokens": ask.max_tokens}
        sampling |= extra.pop("sampling_params", {})
        body: Json = {**prompts, "sampling_params": sampling, "stream": ask.stream}
        if ask.log_probs:
            body["return_logprob"] = True
        return [Call(self.path, body | extra, tuple(range(len(batch))))]

    def take(self, event: Json, answers: Sequence[Answer], now_ns: int) -> None:
        """Read a chunk; text, ids and log-probs are all so far, or only the new ones."""
        check_error(event)
        place = event.get("index", 0)
        if not isinstance(place, int) or not 0 <= place < len(answers):
            raise EndpointError("protocol", f"index: found {place!r}, expected a prompt's place")
        answer, meta = answers[place], event.get("meta_info")
        if not isinstance(meta, dict):
            raise EndpointError("protocol", "meta_info: missing; is this SGLang's /generate?")
        before = len(answer.ids), answer.completion_tokens
        total = _natural(meta.get("completion_tokens"), None)
        found = _ints(event.get("output_ids"))
        if found:
            answer.add_ids(found, total)
        only_new = bool(found) and 0 < before[0] == len(answer.ids) - len(found)
        answer.text = _grown(answer.text, event.get("text"), only_new=only_new)
        rows = meta.get("output_token_logprobs") or []
        log_probs = grown(answer.log_probs, _floats([row[0] for row in rows]), total)
        answer.log_probs = answer.log_probs if log_probs is None else log_probs
        answer.completion_tokens = total
        answer.prompt_tokens = _natural(meta.get("prompt_tokens"), answer.prompt_tokens)
        answer.cached_tokens = _natural(meta.get("cached_tokens"), answer.cached_tokens)
        answer.retractions = _natural(meta.get("num_retractions"), None) or 0
        self._finish(meta.get("finish_reason"), answer, now_ns)
        if (len(answer.ids), answer.completion_tokens) != before:
            answer.stamp(now_ns)

    def _finish(self, reason: Any, answer: Answer, now_ns: int) -> None:
        if not isinstance(reason, dict):
            return
        if reason.get("type") == "abort":
            said = " ".join(str(reason.get("message") or "the engine aborted it").split())[:200]
            answer.fail("oom" if out_of_memory(said) else "error", said, now_ns)
        answer.finish = str(reason.get("type"))


def check_error(event: Json) -> None:
    """Raise EndpointError where an event is a server's error."""
    error = event.get("error")
    if error is None and event.get("object") == "error":
        error = event.get("message")
    if error is None:
        return
    said = error.get("message") if isinstance(error, dict) else error
    text = " ".join(str(said).split())[:200]
    raise EndpointError(_kind(text), f"the server reports: {text}")


def _kind(text: str) -> Kind:
    return "oom" if out_of_memory(text) else "http"


def _grown(text: str, found: Any, *, only_new: bool) -> str:
    if not isinstance(found, str):
        return text
    return text + found if only_new else found


def _natural(value: Any, default: int | None) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return default
    return value


def _list(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _ints(value: Any) -> list[int]:
    return [int(one) for one in value] if isinstance(value, list) else []


def _floats(value: Any) -> list[float]:
    rows = value if isinstance(value, list) else []
    return [float(one) for one in rows if isinstance(one, int | float)]
