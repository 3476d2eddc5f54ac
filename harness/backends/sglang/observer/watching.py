"""The observer's two hooks: after the attention backends exist, and after every pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.backends.sglang.observer.looking import engine_facts
from harness.backends.sglang.report import Reporter, report_folder

PLUGIN = "harness_observer"
COUNTERS = ("forwards", "forward_tokens", "decode_forwards", "decode_rows")

_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"


def watch() -> None:
    """Register the hooks. Nothing is written before an engine's model runner exists."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    watcher = _Watcher(report_folder())
    HookRegistry.register(
        f"{_RUNNER}.init_attention_backends", watcher.after_backends, HookType.AFTER
    )
    HookRegistry.register(f"{_RUNNER}.forward", watcher.after_forward, HookType.AFTER)


class _Watcher:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reporter: Reporter | None = None

    def after_backends(self, _result: object, runner: Any, *_rest: Any, **_named: Any) -> None:
        """Write down the engine. Only the process that computes comes here."""
        self._reporter = Reporter(self._folder, PLUGIN, COUNTERS)
        self._reporter.fact({"plugin": PLUGIN, "process": "scheduler", **engine_facts(runner)})

    def after_forward(
        self, _result: object, _runner: Any, forward_batch: Any, *_rest: Any, **_named: Any
    ) -> None:
        """Count one pass."""
        reporter = self._reporter
        if reporter is None:
            return
        reporter.count("forwards")
        reporter.count("forward_tokens", int(forward_batch.input_ids.shape[0]))
        if forward_batch.forward_mode.is_decode():
            reporter.count("decode_forwards")
            reporter.count("decode_rows", int(forward_batch.batch_size))
