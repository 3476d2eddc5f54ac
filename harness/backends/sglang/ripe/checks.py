"""What the patch refuses when an engine starts: one sentence each, before a token is computed."""

from __future__ import annotations

from typing import Any

from harness.backends.sglang.ripe.options import EXACT, Options, RipeError
from harness.backends.sglang.ripe.pool import check_pool, core_of, rings_of

TORCH_NATIVE = "ripe_torch_native"
TRITON = "ripe_triton"
BACKENDS = (TORCH_NATIVE, TRITON)


def check_engine(runner: Any, options: Options, backend: str = TORCH_NATIVE) -> None:
    """Refuse an engine that could read a wrong plane. Raises RipeError."""
    _check_arguments(runner.server_args, options, backend)
    core = core_of(runner.model, options)
    pool = runner.token_to_kv_pool
    check_pool(pool)
    slots = int(runner.req_to_token_pool.req_to_token.shape[0])
    if slots > options.requests + 1:
        raise RipeError(
            f"requests: found {options.requests} in HARNESS_RIPE, expected at least the engine's "
            f"{slots - 1} request slots"
        )
    _check_rows(pool, core, options)


def _check_arguments(args: Any, options: Options, backend: str) -> None:
    if not args.disable_radix_cache:
        raise RipeError("radix cache: found it on, expected off; shared prefixes have no rings")
    _check_chunks(args.chunked_prefill_size, options)
    for name in ("prefill_attention_backend", "decode_attention_backend"):
        found = getattr(args, name)
        if found not in (None, backend):
            raise RipeError(f"{name}: found '{found}', expected '{backend}' for every pass")
    if not args.disable_cuda_graph:
        raise RipeError("CUDA graphs: found them on, expected off; the patch was never captured")
    if args.page_size not in (None, 1):
        raise RipeError(f"page_size: found {args.page_size}, expected 1")
    if args.speculative_algorithm is not None:
        raise RipeError(f"speculation: found {args.speculative_algorithm}, expected none")
    if args.enable_mixed_chunk:
        raise RipeError("mixed chunks: found them on, expected prefill and decode passes apart")
    if args.disaggregation_mode != "null":
        raise RipeError(f"disaggregation: found '{args.disaggregation_mode}', expected none")


def _check_chunks(size: int | None, options: Options) -> None:
    whole = size is not None and size <= 0
    if options.prefill == EXACT:
        longest = options.window + 1
        if size is None or whole or size > longest:
            raise RipeError(
                f"chunked_prefill_size: found {size}, expected 1 to {longest} (window + 1) for the "
                "exact prefill"
            )
    elif not whole:
        raise RipeError(
            f"chunked_prefill_size: found {size}, expected -1 for the full_prompt prefill, whose "
            "prompts go in one pass"
        )


def _check_rows(pool: Any, core: range, options: Options) -> None:
    """The hook that grows the pool may have failed, which SGLang only logs."""
    rings = rings_of(pool, options)
    for layer, buffer in enumerate(pool.k_buffer, pool.start_layer):
        expected = rings.base + (rings.rows if layer in core else 0)
        if buffer.shape[0] != expected:
            raise RipeError(
                f"KV pool: found {buffer.shape[0]} rows in cache layer {layer}, expected {expected}"
            )
