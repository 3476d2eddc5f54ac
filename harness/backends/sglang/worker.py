"""The `sglang` engine of an arm: starts SGLang beside the worker, asks it, times it, and proves it.

SGLang takes its whole process tree down when one of its processes dies, so that it never runs in
the worker itself. When it dies, the worker ends with its last words, and the runner starts another.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness.backends.base import (
    PROBE,
    PROBE_TOKENS,
    BackendError,
    Generate,
    Generated,
    Hello,
    HelloReply,
    ProbeReply,
    ResetReply,
)
from harness.backends.http.answers import hits
from harness.backends.sglang.arguments import Served, Start, start_of
from harness.backends.sglang.engine import (
    Batch,
    Engine,
    EngineError,
    EngineHungError,
    EngineRefusedError,
    Outcome,
    all_late,
)
from harness.backends.sglang.evidence import Counted, Evidence, evidence, patch_of, work_of
from harness.backends.sglang.holdings import Holdings, holdings_of
from harness.backends.sglang.options import (
    SglangOptions,
    Treatment,
    checkpoint,
    sglang_options,
    treatment_of,
)
from harness.backends.sglang.results import result_of, timing

if TYPE_CHECKING:
    from harness.tasks.published_tokenizer import PublishedTokenizer
    from harness.tasks.tokenizer import Tokenizer

_TOLERANCE = 1e-4
_ALIVE_S = 10.0
SCRATCH = "HARNESS_SCRATCH"
"""The variable that names a folder which the runner removes with the worker."""


def make() -> SglangBackend:
    """Return a worker's engine that still has to be told its arm."""
    return SglangBackend()


class SglangBackend:
    """One arm, one engine at a time."""

    def __init__(self) -> None:
        self._served: Served
        self._options: SglangOptions
        self._treatment: Treatment
        self._tokenizer: Tokenizer | PublishedTokenizer
        self._holdings: Holdings
        self._evidence: Evidence
        self._start: Start
        self._engine: Engine | None = None
        self._task: dict[str, Any] = {}
        self._stop_ids: list[int] = []
        self._seed = ""
        self._role = ""
        self._starts = 0
        self._shown: list[float] | None = None
        self._doubted: str | None = None
        """Why the engine must show that it still generates, or be replaced."""

    def hello(self, request: Hello) -> HelloReply:
        """Start the engine and read what it reports of itself.

        Raises:
            ValueError: malformed options. BackendError: the engine does not start, or nothing
            proves what runs.
        """
        from harness.backends.looped import stop_ids
        from harness.tasks.tokenizer import load_tokenizer

        arm, model = request["arm"], request["model"]
        self._options = sglang_options(arm.get("options", {}))
        self._treatment = treatment_of(arm, model)
        folder = checkpoint(self._options.model or model["name"])
        self._served = Served(folder, model["device"], model["dtype"], request["threads"])
        self._tokenizer = load_tokenizer(folder / "tokenizer.json")
        self._task, self._seed = request["task"], request["seed"]
        self._stop_ids = stop_ids(self._tokenizer, self._task["stop"])
        self._role = arm["role"]
        self._begin()
        return self._greeting(model)

    def probe(self) -> ProbeReply:
        """Log-probs of a fixed prompt's next tokens, after the decode steps that made them."""
        counted = Counted(self._start.report)
        self._shown = self._log_probs()
        return {"fingerprint": self._shown, "counters": patch_of(counted.moved())}

    def reset(self) -> ResetReply:
        """Empty the prefix cache; an engine that hung is replaced first, and proven again.

        Raises:
            BackendError: the cache is not emptied.
        """
        if self._doubted is not None:
            self._replace()
        elif not self._running().alive:
            self._end(self._running().last_words())
        if self._options.radix_cache:
            self._asked(self._running().flush)
        return {"cache_entries": 0}

    def generate(self, request: Generate) -> Generated:
        """Run one batch.

        Raises:
            BackendError: it is too large, the engine refuses it, or memory ran out.
        """
        prompts = [self._tokenizer.encode(item["prompt"]) for item in request["items"]]
        if len(prompts) > self._options.max_running_requests:
            raise BackendError(
                "value",
                f"a batch of {len(prompts)} is larger than options.max_running_requests = "
                f"{self._options.max_running_requests}",
            )
        counted = Counted(self._start.report)
        outcome = self._outcome(prompts, request["timeout_s"])
        moved = counted.moved()
        if any(answer.status == "timeout" for answer in outcome.answers):
            self._doubted = "it missed a deadline"
        results = [
            result_of(item["id"], prompt, answer, outcome.start_ns, self._tokenizer, self._holdings)
            for item, prompt, answer in zip(request["items"], prompts, outcome.answers, strict=True)
        ]
        return {
            "results": results,
            "timing": timing(outcome),
            "cache": {
                "entries_before": 0,
                "hits": hits(outcome.answers),
                "peak_bytes": self._holdings.pool_bytes,
            },
            "counters": work_of(moved),
            "patch_counters": patch_of(moved),
        }

    def selftest(self, prompts: list[str]) -> list[dict[str, Any]]:
        """Compare the engine's greedy tokens with `harness.looped` on the same checkpoint."""
        from harness.backends.sglang.selftest import checks

        ids = [self._tokenizer.encode(prompt) for prompt in prompts[:2]]
        tokens = 12
        outcome = self._asked(
            lambda: self._running().generate(Batch(ids, tokens, [], 60.0, log_probs=True))
        )
        return checks(self._served, self._treatment, ids, outcome.answers, self._holdings)

    def close(self) -> None:
        """End the engine and remove its folder."""
        if self._engine is not None:
            self._engine.stop()
            self._engine = None
            shutil.rmtree(self._start.scratch, ignore_errors=True)

    def _begin(self) -> None:
        """Start an engine in a folder of its own."""
        self._starts += 1
        given = os.environ.get(SCRATCH)
        scratch = Path(given, str(self._starts)) if given else Path(tempfile.mkdtemp())
        self._start = start_of(self._served, self._options, self._treatment, self._seed, scratch)
        try:
            self._engine = self._launch()
        except EngineError as error:
            shutil.rmtree(scratch, ignore_errors=True)
            raise BackendError(
                "oom" if error.memory else "bug", f"SGLang did not start: {error}"
            ) from error
        try:
            self._evidence = evidence(self._start.report)
        except ValueError as error:
            self.close()
            raise BackendError("bug", str(error)) from error
        self._holdings = holdings_of(
            self._served, self._treatment, self._options, self._evidence.pool()
        )

    def _launch(self) -> Engine:
        from harness.backends.sglang.offline import OfflineEngine
        from harness.backends.sglang.server import ServerEngine

        if self._options.launch == "offline":
            return OfflineEngine(self._start, self._options.start_timeout_s)
        return ServerEngine(self._start, self._options.start_timeout_s, self._options.port)

    def _replace(self) -> None:
        """Replace an engine that no longer generates; it must show what the one before did."""
        with contextlib.suppress(EngineError, EngineRefusedError):
            if self._running().alive:
                probe = Batch([self._tokenizer.encode(PROBE)], 1, [], _ALIVE_S)
                if self._running().generate(probe).answers[0].status == "ok":
                    self._doubted = None
                    return
        self.close()
        self._begin()
        self._doubted = None
        shown = self._log_probs()
        if self._shown is not None and (
            len(shown) != len(self._shown)
            or any(abs(a - b) > _TOLERANCE for a, b in zip(shown, self._shown, strict=True))
        ):
            self._end("a replaced engine gives other log-probs than the one before")

    def _log_probs(self) -> list[float]:
        ids = self._tokenizer.encode(PROBE)
        asked = Batch([ids], PROBE_TOKENS, [], self._options.start_timeout_s, log_probs=True)
        outcome: Outcome = self._asked(lambda: self._running().generate(asked))
        answer = outcome.answers[0]
        if answer.error is not None:
            raise BackendError("bug", f"the probe failed: {answer.error}")
        return answer.log_probs

    def _outcome(self, prompts: list[list[int]], timeout_s: float) -> Outcome:
        batch = Batch(prompts, self._task["max_tokens"], self._stop_ids, timeout_s)
        began = time.monotonic_ns()
        try:
            return self._running().generate(batch)
        except EngineHungError as error:
            self._doubted = str(error)
            return all_late(batch, began, time.monotonic_ns())
        except EngineError as error:
            if error.memory:
                self._doubted = str(error)
                raise BackendError("oom", f"SGLang died: {error}") from error
            self._end(str(error))
        except EngineRefusedError as error:
            raise BackendError("value", str(error)) from error

    def _asked(self, ask: Any) -> Any:
        """Return what an engine answers outside of a visit; its death is the worker's."""
        try:
            return ask()
        except EngineError as error:
            self._end(str(error))
        except EngineRefusedError as error:
            raise BackendError("bug", str(error)) from error

    def _running(self) -> Engine:
        if self._engine is None:
            raise BackendError("bug", "no engine runs; its start failed")
        return self._engine

    def _end(self, reason: str) -> NoReturn:
        """End the worker: the runner then starts another, which must prove itself again."""
        self.close()
        sys.stderr.flush()
        raise SystemExit(f"SGLang died: {reason}")

    def _greeting(self, model: dict[str, Any]) -> HelloReply:
        shown, info = self._shown_patches(model), self._running().info
        versions = {"sglang": str(info.get("version") or self._evidence.observed[0]["sglang"])}
        versions |= {"python": platform.python_version(), "threads": str(self._served.threads)}
        versions |= _torch_version()
        return {
            "backend": "sglang",
            "versions": versions,
            "device": self._served.device,
            "patch": {"claims": bool(shown), "name": "; ".join(shown)[:300] or None},
            "engine": {
                "launch": self._options.launch,
                "arguments": info,
                "attention_backend": self._evidence.observed[0]["attention_backend"],
                "hooks": self._evidence.observed[0]["hooks"],
                "pool": self._holdings.described(),
            },
        }

    def _shown_patches(self, model: dict[str, Any]) -> list[str]:
        """Everything that makes this engine another than a pristine one at the model's depth."""
        found = []
        if self._evidence.ripe is not None:
            found.append(f"{self._treatment.policy} by harness_ripe, window "
                         f"{self._evidence.ripe['window']}")  # fmt: skip
        found += self._evidence.foreign()
        if self._role == "pristine" and self._treatment.loops != model["loops"]:
            found.append(f"{self._treatment.loops} loops")
        return found


def _torch_version() -> dict[str, str]:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return {"torch": importlib.metadata.version("torch")}
    return {}
