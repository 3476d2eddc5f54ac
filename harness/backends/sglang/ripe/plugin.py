"""Registers the backends and the hooks. SGLang only logs a plugin that fails, so this one does not.

Whatever is wrong with the settings is raised by the backend that an engine then asks for: the
engine fails to start, with the reason. Where this plugin was not loaded the backend's name is
unknown, and the engine fails as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.backends.sglang.ripe.checks import BACKENDS, TRITON
from harness.backends.sglang.ripe.options import Options, RipeError, read_options
from harness.backends.sglang.ripe.pool import core_of, grow, rings_of

_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
_POOL = "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool"


def install() -> None:
    """Register the backends by name, and the hooks where the settings are right."""
    from sglang.srt.arg_groups.choices import add_attention_backend_choices
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    add_attention_backend_choices(list(BACKENDS))
    options, reason = None, ""
    try:
        options = read_options()
    except RipeError as error:
        reason = str(error)
    for name in BACKENDS:
        register_attention_backend(name)(_maker(name, options, reason))
    if options is not None:
        _hook(options)


def _maker(name: str, options: Options | None, reason: str) -> Callable[[Any], Any]:
    def make(runner: Any) -> Any:
        if options is None:
            raise RipeError(reason)
        from harness.backends.sglang.ripe import backend, backend_triton

        chosen = backend_triton if name == TRITON else backend
        return chosen.make_backend(runner, options)

    return make


def _hook(options: Options) -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    growing = _Growing(options)
    HookRegistry.register(f"{_RUNNER}.alloc_memory_pool", growing.around_alloc, HookType.AROUND)
    HookRegistry.register(f"{_POOL}._create_buffers_normal", growing.around_create, HookType.AROUND)


class _Growing:
    """Grows the pool that a runner makes; the runner's model says which layers are the core."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._core: range | None = None

    def around_alloc(
        self, original: Callable[..., Any], runner: Any, *rest: Any, **named: Any
    ) -> Any:
        """Remember the core while SGLang makes its pools."""
        self._core = core_of(runner.model, self._options)
        try:
            return original(runner, *rest, **named)
        finally:
            self._core = None

    def around_create(
        self, original: Callable[..., Any], pool: Any, *rest: Any, **named: Any
    ) -> Any:
        """Add ring rows to the core's buffers."""
        result = original(pool, *rest, **named)
        if self._core is not None:
            grow(pool, self._core, rings_of(pool, self._options))
        return result
