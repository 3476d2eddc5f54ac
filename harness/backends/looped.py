"""The looped models as an engine: a published or embedded checkpoint, a cache policy, a decoder.

Everything runs in this worker on the plan's number of threads, from the same code on CPU and CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    Status,
    Timing,
)
from harness.backends.looped_arm import Arm, arm_of, claims

if TYPE_CHECKING:
    from harness.looped.generation import Generation, Row
    from harness.looped.model import LoopedLM
    from harness.looped.policies import Policy
    from harness.tasks.published_tokenizer import PublishedTokenizer
    from harness.tasks.tokenizer import Tokenizer


def make() -> LoopedBackend:
    """Return an engine that still has to be told its arm."""
    return LoopedBackend()


class LoopedBackend:
    """One arm of a looped model. Nothing survives a visit: each one makes its own cache."""

    uses_torch = True
    """A profiling pass should ask torch where the time goes."""

    def __init__(self) -> None:
        self._model: LoopedLM
        self._tokenizer: Tokenizer | PublishedTokenizer
        self._arm: Arm
        self._depth = 0
        self._claims: list[str] = []

    def hello(self, request: Hello) -> HelloReply:
        """Load the checkpoint and fix policy, decoder, loops and stop rule.

        Raises:
            ValueError: an unknown checkpoint, or options that do not fit together.
        """
        import torch

        from harness.looped.weights import find, load
        from harness.tasks.tokenizer import load_tokenizer

        torch.set_num_threads(request["threads"])
        model, arm, task = request["model"], request["arm"], request["task"]
        folder = find(model["name"])
        self._tokenizer = load_tokenizer(folder / "tokenizer.json")
        dtype = getattr(torch, model["dtype"])
        self._model = load(folder, device=model["device"], dtype=dtype)
        self._arm = arm_of(
            arm,
            model,
            max_tokens=task["max_tokens"],
            stop=stop_ids(self._tokenizer, task["stop"]),
            known=self._tokenizer.size,
        )
        self._arm.check(self._model)
        self._depth = model["loops"]
        self._claims = claims(arm, model)
        return {
            "backend": "looped",
            "versions": {"torch": torch.__version__, "threads": str(torch.get_num_threads())},
            "device": model["device"],
            "patch": {"claims": bool(self._claims), "name": "+".join(self._claims) or None},
        }

    def probe(self) -> ProbeReply:
        """Log-probs of a fixed prompt's next tokens under the arm's own policy and depth."""
        import torch

        ids = self._tokenizer.encode(PROBE)
        found, _ = self._arm.greedy(max_tokens=PROBE_TOKENS).run(self._model, [ids])
        with torch.inference_mode():
            whole = torch.tensor([[*ids, *found.rows[0].tokens]], device=self._model.device)
            logits = self._model.forward(whole, loops=self._arm.loops, start="keyed")
            log_probs = torch.log_softmax(logits[0].double(), -1)
        places = range(len(ids) - 1, whole.shape[1] - 1)
        chosen = [float(log_probs[place, int(whole[0, place + 1])]) for place in places]
        return {"fingerprint": chosen, "counters": self._patch_counters(found, [len(ids)])}

    def reset(self) -> ResetReply:
        """Nothing to empty: caches live for one visit."""
        return {"cache_entries": 0}

    def generate(self, request: Generate) -> Generated:
        """Decode a frozen batch of prompts.

        Raises:
            BackendError: a prompt too long for the model (`value`), or the cache needs more than
                its budget (`oom`).
        """
        from harness.looped.errors import BudgetError, LoopedError

        prompts = [self._tokenizer.encode(item["prompt"]) for item in request["items"]]
        try:
            found, work = self._arm.run(self._model, prompts, [i["id"] for i in request["items"]])
        except BudgetError as error:
            raise BackendError("oom", str(error)) from error
        except LoopedError as error:
            raise BackendError("value", str(error)) from error
        sizes = [self._row_bytes(p, r) for p, r in zip(prompts, found.rows, strict=True)]
        assert sum(sizes) == found.cache_held_bytes, "bytes held differ from the formula"
        results = [
            self._result(item["id"], prompt, row, size)
            for item, prompt, row, size in zip(
                request["items"], prompts, found.rows, sizes, strict=True
            )
        ]
        return {
            "results": results,
            "timing": _timing(found),
            "cache": {"entries_before": 0, "hits": 0, "peak_bytes": found.cache_peak_bytes},
            "counters": work,
            "patch_counters": self._patch_counters(found, [len(p) for p in prompts]),
        }

    def selftest(self, prompts: list[str]) -> list[dict[str, Any]]:
        """Check the arm's decoder in float64 and measure the rounding bound of its dtype."""
        from harness.backends.looped_selftest import checks

        ids = [self._tokenizer.encode(prompt) for prompt in prompts]
        return checks(self._model, ids, self._arm)

    def close(self) -> None:
        """Nothing to release beyond the process."""

    def _row_bytes(self, prompt: list[int], row: Row) -> int:
        """Bytes of a row: the prompt and every answer token but the pending one."""
        return self._bytes(self._arm.policy, len(prompt) + max(len(row.tokens), 1) - 1)

    def _bytes(self, policy: Policy, tokens: int) -> int:
        from harness.looped.memory import cache_bytes

        size = self._model.dtype.itemsize
        return cache_bytes(self._model.config, policy, tokens, self._arm.loops, size)

    def _result(self, item: str, prompt: list[int], row: Row, size: int) -> Result:
        stopped = row.stop_reason == "stop"
        kept = row.tokens[:-1] if stopped else row.tokens
        status: Status = "nan" if row.stop_reason == "nan" else "ok"
        result: Result = {
            "item": item,
            "status": status,
            "token_ids": list(row.tokens),
            "text": self._tokenizer.decode(kept),
            "prompt_tokens": len(prompt),
            "finish": "stop" if stopped else "length",
            "counters": _counters(row),
            "cache_bytes": size,
        }
        if row.near_ties:
            result["near_ties"] = [[place, margin] for place, margin in row.near_ties]
        return result

    def _patch_counters(self, found: Generation, prompts: list[int]) -> Counters:
        """What only a patched path moves: drafts, waves, other loops, bytes that are not held."""
        from harness.looped.policies import full
        from harness.looped.waves import Wavefront

        whole = sum(
            self._bytes(full(), prompt + max(len(row.tokens), 1) - 1)
            for prompt, row in zip(prompts, found.rows, strict=True)
        )
        steps = found.counters.verify_passes
        moved = {
            "drafts": found.counters.draft_passes,
            "bytes_not_held": whole - found.cache_held_bytes,
        }
        if isinstance(self._arm.decode, Wavefront):
            moved["waves"] = steps
        if self._arm.loops != self._depth:
            moved["loops_changed"] = steps * abs(self._arm.loops - self._depth)
        return moved


def _counters(row: Row) -> Counters:
    """What a row's decoding did; tried_k, kept_k: drafts at place k after k − 1 good ones."""
    found = row.counters
    counters = {
        "passes": found.verify_passes,
        "draft_passes": found.draft_passes,
        "drafted": found.drafted,
        "accepted": found.accepted,
    }
    for place, (tried, kept) in enumerate(zip(found.tried, found.kept, strict=True), start=1):
        counters |= {f"tried_{place}": tried, f"kept_{place}": kept}
    return counters


def stop_ids(tokenizer: Tokenizer | PublishedTokenizer, stop: str) -> list[int]:
    """Return the ids that end an answer: the tokenizer's own, and all whose text holds `stop`."""
    marked = (i for i in range(tokenizer.size) if stop and stop in tokenizer.decode([i]))
    return [*tokenizer.ends, *marked]


def _timing(found: Generation) -> Timing:
    return {
        "prefill_ns": found.prefill.wall_ns,
        "decode_ns": found.decode.wall_ns,
        "total_ns": found.total.wall_ns,
        "prefill_cpu_ns": found.prefill.cpu_ns,
        "decode_cpu_ns": found.decode.cpu_ns,
        "total_cpu_ns": found.total.cpu_ns,
    }
