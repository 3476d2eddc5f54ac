"""A programmable engine on a virtual clock: it reports times without spending them.

The same request gives the same reply: noise is keyed by seed, item and visit number.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import signal
import time

from harness.backends.base import (
    BackendError,
    Check,
    Generate,
    Generated,
    Hello,
    HelloReply,
    ProbeReply,
    PromptItem,
    ResetReply,
    Result,
    Timing,
)
from harness.backends.fake_options import FakeOptions, fake_options
from harness.backends.ghost import leave_ghost

_SUM = re.compile(r"(\d+) \+ (\d+)")
_FOREVER_S = 86_400.0


def make() -> FakeBackend:
    """Return a fake engine that waits for `hello`."""
    return FakeBackend()


def uniform(*key: str | int) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    data = hashlib.sha256("\0".join(str(part) for part in key).encode()).digest()
    return int.from_bytes(data[:8], "big") / 2**64


def right_answer(prompt: str) -> str:
    """Return what the fake engine holds for the answer: the sum in the prompt, or a hash of it."""
    found = _SUM.search(prompt)
    if found:
        return str(int(found[1]) + int(found[2]))
    return str(int(uniform("answer", prompt) * 1000))


class FakeBackend:
    """See `FakeOptions` for what it can be told to do."""

    def __init__(self) -> None:
        self.options = FakeOptions()
        self.seed = ""
        self.max_tokens = 1
        self.draft_tokens = 0
        self.claims = False
        self.visits = 0
        self.cached: set[str] = set()
        self.kept: list[bytes] = []

    def hello(self, request: Hello) -> HelloReply:
        """Take the arm's options."""
        arm = request["arm"]
        self.options = fake_options(arm.get("options", {}))
        time.sleep(self.options.slow_start_s)
        self.seed = request["seed"]
        self.max_tokens = int(request["task"]["max_tokens"])
        self.draft_tokens = int((arm.get("decode") or {}).get("draft_tokens") or 0)
        claims = self.options.claims
        self.claims = arm["role"] == "patched" if claims is None else claims
        self._stray_print()
        if self.options.ghost:
            leave_ghost(self.options.ghost_port)
        return {
            "backend": "fake",
            "versions": {"fake": "1", "python": platform.python_version()},
            "device": "virtual",
            "patch": {"claims": self.claims, "name": "fake" if self.claims else None},
        }

    def probe(self) -> ProbeReply:
        """Return fixed log-probs, shifted by the option, and whether the patch ran."""
        shift = self.options.fingerprint
        if self.options.probe_unstable:
            shift += uniform("probe", os.getpid())
        if self.options.probe_fails:
            shift = math.nan
        prints = [-(index + 1) / 8 + shift for index in range(4)]
        return {"fingerprint": prints, "counters": self._patch_counters(1)}

    def reset(self) -> ResetReply:
        """Empty the prompt cache, unless it is told to survive."""
        if not self.options.cache_survives_reset:
            self.cached.clear()
        return {"cache_entries": len(self.cached)}

    def generate(self, request: Generate) -> Generated:
        """Answer a batch; its time is the sum over the items."""
        self.visits += 1
        self._stray_print()
        if self.visits == self.options.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.visits == self.options.out_of_memory_at:
            raise BackendError("oom", "the virtual device is full")
        before = len(self.cached)
        hits = sum(_key(item) in self.cached for item in request["items"])
        results: list[Result] = []
        prefill_ms = decode_ms = 0.0
        for item in request["items"]:
            self._misbehave(item)
            result, prefill, decode = self._item(item, request)
            if item["id"] != self.options.drop_item:
                results.append(result)
            prefill_ms, decode_ms = prefill_ms + prefill, decode_ms + decode
        self.kept.append(b"x" * (self.options.memory_growth_mib << 20))
        if self.options.warm_cache_speedup > 1:
            self.cached |= {_key(item) for item in request["items"]}
        if self.options.real_sleep:
            time.sleep((prefill_ms + decode_ms) / 1e3)
        peak = sum(result["cache_bytes"] for result in results)
        return {
            "results": results,
            "timing": _timing(prefill_ms, decode_ms),
            "cache": {"entries_before": before, "hits": hits, "peak_bytes": peak},
            "patch_counters": self._patch_counters(len(results)),
        }

    def selftest(self, prompts: list[str]) -> list[Check]:
        """Check that a request gives the same reply twice, unless it is told to fail."""
        items: list[PromptItem] = [{"id": str(n), "prompt": p} for n, p in enumerate(prompts)]
        twice = [[self._tokens(item) for item in items] for _ in range(2)]
        same = twice[0] == twice[1] and not self.options.selftest_fails
        detail = f"{len(prompts)} prompts"
        return [{"name": "the same request gives the same tokens", "ok": same, "detail": detail}]

    def close(self) -> None:
        """Nothing to release."""

    def _item(self, item: PromptItem, request: Generate) -> tuple[Result, float, float]:
        prefill, decode = self._times(item, request["id"])
        limit = request["timeout_s"] * 1e3
        status = "ok"
        if item["id"] in self.options.error_items:
            status = "error"
        elif item["id"] in self.options.nan_items:
            status = "nan"
        elif prefill + decode > limit:
            status, decode = "timeout", max(0.0, limit - prefill)
        tokens = self._tokens(item) if status == "ok" else []
        passes = math.ceil(len(tokens) / self.options.chunk)
        drafted = passes * max(self.draft_tokens, self.options.chunk - 1)
        prompt_tokens = len(item["prompt"].split())
        held = self.options.cache_bytes_per_token * (prompt_tokens + len(tokens))
        result: Result = {
            "item": item["id"],
            "status": status,  # type: ignore[typeddict-item]
            "token_ids": tokens,
            "text": self._text(item) if status == "ok" else "",
            "prompt_tokens": prompt_tokens,
            "finish": "length" if len(tokens) == self.max_tokens else "stop",
            "counters": {"passes": passes, "drafted": drafted, "accepted": len(tokens) - passes},
            "cache_bytes": held,
        }
        return result, prefill, decode

    def _times(self, item: PromptItem, visit: int) -> tuple[float, float]:
        options = self.options
        factor = (1 + options.drift_per_visit) ** visit
        factor *= math.exp(options.jitter * _normal(self.seed, item["id"], visit))
        every = options.slow_every
        if self.visits == 1 or (every and visit % every == 0):
            factor *= options.warmup_slow
        if _key(item) in self.cached:
            factor /= options.warm_cache_speedup
        tokens = min(options.tokens_per_item, self.max_tokens)
        decode = options.ms_per_token * tokens / options.speedup
        return options.prefill_ms * factor, decode * factor

    def _tokens(self, item: PromptItem) -> list[int]:
        count = min(self.options.tokens_per_item, self.max_tokens)
        ids = [int(uniform("token", item["prompt"], place) * 1000) for place in range(count)]
        if uniform("disagree", item["prompt"]) < self.options.disagree_share:
            ids[-1] += 1000
        ids = ids[: max(1, count - self.options.stop_early)]
        return ids[::2] if self.options.merged_tokens else ids

    def _text(self, item: PromptItem) -> str:
        known = self.options.answers or {}
        answer = known.get(item["id"]) or right_answer(item["prompt"])
        wrong = uniform("wrong", item["prompt"]) < self.options.wrong_answer_share
        return f" #### {answer}1" if wrong else f" #### {answer}"

    def _patch_counters(self, moves: int) -> dict[str, int]:
        return {"patched_calls": moves if self.claims and not self.options.inert else 0}

    def _misbehave(self, item: PromptItem) -> None:
        if item["id"] == self.options.crash_item:
            os.kill(os.getpid(), signal.SIGKILL)
        if item["id"] == self.options.hang_item:
            time.sleep(_FOREVER_S)

    def _stray_print(self) -> None:
        if self.options.stray_print is not None:
            print(self.options.stray_print)  # noqa: T201 - the vice under test


def _key(item: PromptItem) -> str:
    return item["prompt"]


def _normal(*key: str | int) -> float:
    """Box and Muller's normal deviate from two keyed uniforms."""
    radius = math.sqrt(-2 * math.log(1 - uniform("radius", *key)))
    return radius * math.cos(2 * math.pi * uniform("angle", *key))


def _timing(prefill_ms: float, decode_ms: float) -> Timing:
    prefill, decode = round(prefill_ms * 1e6), round(decode_ms * 1e6)
    return {
        "prefill_ns": prefill,
        "decode_ns": decode,
        "total_ns": prefill + decode,
        "prefill_cpu_ns": prefill,
        "decode_cpu_ns": decode,
        "total_cpu_ns": prefill + decode,
    }
