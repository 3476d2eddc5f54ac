"""The `http` engine: a batch is sent to a server that the user runs, and the client keeps the time.

A client sees no CPU time of the server (the wire's CPU times are 0 and a plan that predicts them is
refused), no cache sizes (0) and no code: what the user vouches for stands in the record as such.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import replace

from harness.backends.base import (
    PROBE,
    PROBE_TOKENS,
    BackendError,
    Counters,
    Generate,
    Generated,
    Hello,
    HelloReply,
    ProbeReply,
    ResetReply,
    Result,
)
from harness.backends.http.answers import Answer, batch_times, hits, timing_of
from harness.backends.http.client import Endpoint, EndpointError
from harness.backends.http.counting import MEANING, NO_COUNT, Source, settle_ids, source_of
from harness.backends.http.dialects import Ask, Dialect, Native, OpenAi
from harness.backends.http.exchange import Exchange
from harness.backends.http.identity import Identity, base_name, flush, identify
from harness.backends.http.options import HttpOptions, http_options

WAYS: tuple[Source, ...] = ("ids", "logprobs", "usage")
ATTESTED = "attested_by_the_user"


def make() -> HttpBackend:
    """Return a client that still has to be told its server."""
    return HttpBackend()


class HttpBackend:
    """One arm: one endpoint, asked in one way."""

    def __init__(self) -> None:
        self._options: HttpOptions
        self._endpoint: Endpoint
        self._dialect: Dialect
        self._identity: Identity
        self._source: Source
        self._ask: Ask
        self._flushes = False

    def hello(self, request: Hello) -> HelloReply:
        """Find the server, see a generation of it, and agree on where token counts come from.

        Raises:
            ValueError: malformed options, or a model that is not served.
            BackendError: no server, no generation in time, or caches that nobody vouches for.
        """
        arm, task = request["arm"], request["task"]
        self._options = http_options(arm.get("options", {}))
        if self._options.attested_patch and arm["role"] == "pristine":
            raise ValueError("options.attest.patch: a pristine arm has no patch to vouch for")
        self._endpoint = Endpoint(self._options.url, self._options.key())
        try:
            self._identity = identify(self._endpoint)
            self._dialect = self._dialect_of(self._options)
            self._ask = Ask(
                task["max_tokens"], task["stop"], self._options.stream, "", False,
                self._options.extra,
            )  # fmt: skip
            shown = self._negotiate()
            self._flushes = flush(self._endpoint, self._identity)
        except EndpointError as error:
            raise _wire_error(error) from error
        self._check_caches(shown)
        return self._greeting(arm["role"])

    def probe(self) -> ProbeReply:
        """Log-probs of a fixed prompt's next tokens, where the server tells them."""
        shown = None
        if self._options.fingerprint:
            asked = replace(self._ask, max_tokens=PROBE_TOKENS, stop="", log_probs=True)
            answer = self._one(asked)
            if answer.error is None:
                shown = answer.log_probs or None
        return {"fingerprint": shown, "counters": self._patch_counters(1)}

    def reset(self) -> ResetReply:
        """Empty the server's prefix cache, where it can be asked to.

        Raises:
            BackendError: it can be asked and refused.
        """
        try:
            if self._flushes:
                flush(self._endpoint, self._identity)
        except EndpointError as error:
            raise _wire_error(error) from error
        return {"cache_entries": 0}

    def generate(self, request: Generate) -> Generated:
        """Send a batch and wait for it, at most until its deadline.

        Raises:
            BackendError: the server is not there, or every item failed alike.
        """
        prompts = [item["prompt"] for item in request["items"]]
        exchange, answers = self._exchange(prompts, self._ask, request["timeout_s"])
        for answer in answers:
            self._settle(answer)
        _all_failed_alike(answers)
        results = [
            _result(item["id"], answer, exchange.start_ns)
            for item, answer in zip(request["items"], answers, strict=True)
        ]
        wall = batch_times(
            answers, exchange.start_ns, exchange.end_ns, streamed=self._options.stream
        )
        return {
            "results": results,
            "timing": timing_of(wall),
            "cache": {"entries_before": 0, "hits": hits(answers), "peak_bytes": 0},
            "counters": {"retries": sum(answer.retries for answer in answers)},
            "patch_counters": self._patch_counters(len(answers)),
        }

    def close(self) -> None:
        """Nothing is held between visits."""

    def _dialect_of(self, options: HttpOptions) -> Dialect:
        if options.api == "sglang":
            return Native()
        served = self._identity.models
        if options.model is not None and served and options.model not in served:
            names = ", ".join(base_name(name) for name in served[:5])
            raise ValueError(f"options.model: {options.model} is not served; served are {names}")
        if options.model is None and len(served) > 1:
            raise ValueError(f"options.model: missing; {len(served)} models are served")
        return OpenAi(options.model or (served[0] if served else None))

    def _negotiate(self) -> Answer:
        """Generate once per way of counting, best first, until the server takes one."""
        wanted = self._options.token_ids
        ways: tuple[Source, ...] = WAYS if wanted == "auto" else (wanted,)
        refused = ""
        for way in ways:
            asked = replace(self._ask, max_tokens=min(8, self._ask.max_tokens), want=way)
            answer = self._one(asked, self._options.hello_timeout_s)
            if answer.status == "timeout":
                raise BackendError(
                    "bug",
                    f"{self._endpoint.name}: the server is there but did not generate within "
                    f"{self._options.hello_timeout_s:g} s",
                )
            if answer.error is not None:
                refused = answer.error
                continue
            found = source_of(answer)
            if found == way or (found is not None and way == ways[-1] == "usage"):
                self._source = way
                self._ask = replace(self._ask, want=way)
                return answer
        raise BackendError("bug", refused or NO_COUNT)

    def _one(self, asked: Ask, timeout_s: float | None = None) -> Answer:
        patience = self._options.hello_timeout_s if timeout_s is None else timeout_s
        try:
            return self._exchange([PROBE], asked, patience)[1][0]
        except BackendError as error:
            failed = Answer()
            failed.fail("error", str(error), 0)
            return failed

    def _exchange(
        self, prompts: Sequence[str], asked: Ask, timeout_s: float
    ) -> tuple[Exchange, list[Answer]]:
        exchange = Exchange(self._endpoint, self._dialect, timeout_s, self._options.retries)
        try:
            answers = exchange.run(self._dialect.calls(prompts, asked), len(prompts))
        except EndpointError as error:
            raise _wire_error(error) from error
        return exchange, answers

    def _settle(self, answer: Answer) -> None:
        if answer.status != "ok":
            return
        try:
            settle_ids(answer, self._source)
        except EndpointError as error:
            answer.status, answer.error = "error", str(error)

    def _check_caches(self, shown: Answer) -> None:
        proven = self._flushes or shown.cached_tokens is not None
        if not proven and not self._options.attested_no_cache:
            raise BackendError(
                "bug",
                "the server neither empties its prefix cache on request nor tells cached tokens; "
                "switch that cache off and say options.attest: {no_cache: true}",
            )

    def _greeting(self, role: str) -> HelloReply:
        identity, options = self._identity, self._options
        patch = options.attested_patch if role != "pristine" else None
        versions = {identity.kind: identity.version or "unknown"}
        model = getattr(self._dialect, "model", None) or next(iter(identity.models), None)
        return {
            "backend": "http",
            "versions": {**versions, "python": platform.python_version()},
            "device": "remote",
            "patch": {"claims": bool(patch), "name": f"{patch} ({ATTESTED})" if patch else None},
            "engine": {
                "api": options.api,
                "model": base_name(model) if model else None,
                "settings": identity.settings,
                "streams": options.stream,
                "token_ids": MEANING[self._source],
                "empties_its_cache": self._flushes,
                "attested_by_the_user": options.attested,
                "not_visible": ["cpu time", "cache bytes", "code"],
            },
        }

    def _patch_counters(self, count: int) -> Counters:
        """What an attested arm moves is the user's word, and its name says so."""
        return {ATTESTED: count} if self._options.attested_patch else {}


def _result(item: str, answer: Answer, start_ns: int) -> Result:
    counters = answer.times(start_ns) | {"retries": answer.retries}
    if answer.cached_tokens is not None:
        counters["cached_tokens"] = answer.cached_tokens
    good = answer.status == "ok"
    result: Result = {
        "item": item,
        "status": answer.status,
        "token_ids": answer.ids if good else [],
        "text": answer.text if good else "",
        "prompt_tokens": answer.prompt_tokens or 0,
        "finish": "length" if answer.finish in (None, "length") else "stop",
        "counters": counters,
        "cache_bytes": 0,
    }
    if answer.error is not None:
        result["error"] = answer.error
        print(f"{item}: {answer.error}", file=sys.stderr)  # noqa: T201 - the worker's log
    return result


def _all_failed_alike(answers: Sequence[Answer]) -> None:
    """A batch that failed as a whole for one reason is a failed visit with that reason.

    A deadline is none: its items have their own times.
    """
    reasons = {(answer.status, answer.error) for answer in answers}
    if len(reasons) == 1 and answers[0].status in ("error", "oom"):
        kind = "oom" if answers[0].status == "oom" else "bug"
        raise BackendError(kind, answers[0].error or "failed")  # type: ignore[arg-type]


def _wire_error(error: EndpointError) -> BackendError:
    return BackendError("oom" if error.kind == "oom" else "bug", str(error))
