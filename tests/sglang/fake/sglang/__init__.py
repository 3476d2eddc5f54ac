"""A stand-in for SGLang that starts in no time and has every vice that a test asks for.

FAKE_SGLANG holds a JSON object, see `Vices`. Answers are the right ones; it writes the reports that
the observer and the RIPE plugin of the real engine write.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__version__ = "0.0.fake"

END = 256


class Vices(SimpleNamespace):
    """`once`: a file; the vices hold only while it is not there, and the first to act makes it."""

    def __init__(self) -> None:
        told = json.loads(os.environ.get("FAKE_SGLANG", "{}"))
        known = {
            "start_error": "", "start_hangs": False, "die_at": "", "die_memory": False,
            "hang_at": "", "health_only": False, "retract": False, "cached": 0,
            "broken_plugins": [], "inert": False, "more_hooks": [], "shift": 0.0, "once": "",
            "ms": 0.0, "silent_observer": False, "die_batch": 0, "hang_batch": 0, "lenient": False,
        }  # fmt: skip
        assert set(told) <= set(known), told
        super().__init__(**{**known, **told})

    def acts(self, vice: Any) -> bool:
        if not vice or (self.once and Path(self.once).exists()):
            return False
        if self.once:
            Path(self.once).touch()
        return True


class Engine:
    def __init__(self, **arguments: Any) -> None:
        self.arguments, self.vices, self.batches = arguments, Vices(), 0
        self.loop = asyncio.new_event_loop()
        self.tokenizer_manager = SimpleNamespace(abort_request=lambda **_: None)
        if self.vices.acts(self.vices.start_hangs):
            time.sleep(600)
        if self.vices.acts(self.vices.start_error):
            raise RuntimeError(self.vices.start_error)
        self.child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        self._plug()

    def _plug(self) -> None:
        plugins = [name for name in os.environ.get("SGLANG_PLUGINS", "").split(",") if name]
        broken = [name for name in plugins if name in self.vices.broken_plugins]
        for name in broken:
            print(f"[warning] Plugin {name} failed to load: RuntimeError: broken", file=sys.stderr)
        loaded = [name for name in plugins if name not in broken]
        backend = self.arguments.get("attention_backend")
        known = self.vices.lenient or backend != "ripe_torch_native" or "harness_ripe" in loaded
        if not known:
            self.shutdown()
            raise ValueError(f"attention_backend: invalid choice: '{backend}'")
        self._report(loaded)

    def _report(self, loaded: list[str]) -> None:
        from harness.backends.sglang.report import Reporter, report_folder

        self.work = self.patch = None
        if "harness_observer" in loaded and not self.vices.silent_observer:
            names = ("forwards", "forward_tokens", "decode_forwards", "decode_rows")
            self.work = Reporter(report_folder(), "harness_observer", names)
            self.work.fact(self._facts(loaded))
        if "harness_ripe" in loaded:
            told = json.loads(os.environ["HARNESS_RIPE"])
            self.patch = Reporter(report_folder(), "harness_ripe", ("ripe_reads",))
            self.patch.fact({"plugin": "harness_ripe", "process": "scheduler", "ripe": told})

    def _facts(self, loaded: list[str]) -> dict[str, Any]:
        hooks = ["runner.forward|after|harness_observer", *self.vices.more_hooks]
        ripe = "harness_ripe" in loaded
        where = "harness.backends.sglang.ripe.backend" if ripe else "sglang.srt.layers.attention"
        pool = _pool(self.arguments)
        return {
            "plugin": "harness_observer", "process": "scheduler", "hooks": hooks, "pool": pool,
            "attention_backend": f"{where}.Backend", "model": "sglang.srt.models.Model",
            "foreign_attention_backends": ["ripe_torch_native"] if ripe else [],
            "sglang": __version__,
        }  # fmt: skip

    def get_server_info(self) -> dict[str, Any]:
        return {**self.arguments, "version": __version__, "internal_states": [{}]}

    def flush_cache(self) -> Any:
        return SimpleNamespace(success=True)

    def shutdown(self) -> None:
        self.child.kill()
        self.child.wait()

    async def async_generate(self, **request: Any) -> Any:
        return self.events(**request)

    async def events(
        self, input_ids: list[list[int]], sampling_params: dict[str, Any], **more: Any
    ) -> Any:
        texts = [_text(ids) for ids in input_ids]
        self._misbehave(texts)
        answers = [_answer(text, sampling_params) for text in texts]
        hangs = any(self.vices.hang_at and self.vices.hang_at in text for text in texts)
        if hangs or self.vices.acts(self.batches == self.vices.hang_batch):
            await asyncio.sleep(600)
        for step in range(max(map(len, answers))):
            await asyncio.sleep(self.vices.ms / 1000)
            rows = [place for place, answer in enumerate(answers) if step < len(answer)]
            self._count(len(rows), step)
            for place in rows:
                yield self._event(place, answers[place], step + 1, input_ids[place], more)

    def _misbehave(self, texts: list[str]) -> None:
        self.batches += 1
        dies = any(self.vices.die_at and self.vices.die_at in text for text in texts)
        if self.vices.acts(dies or self.batches == self.vices.die_batch):
            cause = "torch.OutOfMemoryError: full" if self.vices.die_memory else "IndexError: row 9"
            for line in (cause, "SIGQUIT received. It usually means one child failed."):
                print(line, file=sys.stderr, flush=True)
            self.child.kill()
            os.kill(os.getpid(), signal.SIGKILL)

    def _count(self, rows: int, step: int) -> None:
        if self.work is not None:
            self.work.count("forwards")
            self.work.count("forward_tokens", rows)
            if step:
                self.work.count("decode_forwards")
        if self.patch is not None and not self.vices.inert:
            self.patch.count("ripe_reads", rows)

    def _event(
        self, place: int, answer: list[int], count: int, prompt: list[int], more: dict[str, Any]
    ) -> dict[str, Any]:
        reason: Any = None
        if count == len(answer):
            stopped = answer[-1] == END
            reason = {"type": "stop", "matched": END} if stopped else {"type": "length"}
        meta = {
            "prompt_tokens": len(prompt), "completion_tokens": count, "finish_reason": reason,
            "cached_tokens": self.vices.cached, "num_retractions": int(self.vices.retract),
        }  # fmt: skip
        if more.get("return_logprob"):
            rows = [[-token / 512 + self.vices.shift, token, None] for token in answer[:count]]
            meta["output_token_logprobs"] = rows
        return {"output_ids": answer[:count], "meta_info": meta, "index": place}


def _pool(arguments: dict[str, Any]) -> dict[str, Any]:
    """The pool that the real engine would have, by the formula."""
    import harness
    from harness.backends.sglang.pool import padding_bytes, pool_bytes
    from harness.looped.config_files import read_config

    tokens, told = (
        int(arguments["max_total_tokens"]),
        json.loads((Path(arguments["model_path"]) / "config.json").read_text("utf-8"))["looped"],
    )
    ripe = json.loads(os.environ.get("HARNESS_RIPE", '{"window": 0}'))
    policy = "full" if told["planes"] == "full" else "ripe"
    config = read_config(Path(harness.__file__).parent / "models" / "tiny_ripe" / "config.json")
    common = {"policy": policy, "window": ripe["window"], "loops": told["loops"], "page_size": 1,
              "itemsize": 4 if arguments["dtype"] == "float32" else 2}  # fmt: skip
    requests = int(arguments["max_running_requests"])
    held = pool_bytes(config, tokens=tokens, requests=requests, **common)
    return {"bytes": held + padding_bytes(config, **common), "class": "sglang.srt.Pool",
            "page_size": 1, "rows": [tokens + 1], "size": tokens}  # fmt: skip


def _tokenizer() -> Any:
    import harness
    from harness.tasks.tokenizer import load_tokenizer

    return load_tokenizer(Path(harness.__file__).parent / "models" / "tiny_ripe" / "tokenizer.json")


def _text(ids: list[int]) -> str:
    return str(_tokenizer().decode(ids))


def _answer(text: str, sampling: dict[str, Any]) -> list[int]:
    from harness.backends.fake import right_answer

    limit = sampling["max_new_tokens"]
    answer = [*_tokenizer().encode(f" #### {right_answer(text)}"), END]
    if sampling["ignore_eos"] or END not in sampling["stop_token_ids"]:
        answer = (answer * limit)[:limit]
    return answer[:limit]
