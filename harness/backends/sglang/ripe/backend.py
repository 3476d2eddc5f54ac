"""SGLang's torch_native attention, with other rows to read in the core's loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.report import Reporter, report_folder
from harness.backends.sglang.ripe.checks import TORCH_NATIVE, check_engine
from harness.backends.sglang.ripe.options import Options
from harness.backends.sglang.ripe.passes import READS, WRITES, Passes, SlotTables
from harness.backends.sglang.ripe.pool import core_of, rings_of

if TYPE_CHECKING:
    from torch import Tensor

PLUGIN = "harness_ripe"


def make_backend(runner: Any, options: Options) -> Any:
    """The backend for a model runner. Raises RipeError for an engine it does not fit."""
    return backend_class()(runner, make_passes(runner, options, TORCH_NATIVE))


def make_passes(runner: Any, options: Options, backend: str) -> Passes:
    """Check an engine, report the patch, and return its state. Raises RipeError."""
    check_engine(runner, options, backend)
    reporter = Reporter(report_folder(), PLUGIN, (READS, WRITES))
    reporter.fact(_facts(runner, options))
    rings = rings_of(runner.token_to_kv_pool, options)
    return Passes(options, rings, runner.req_to_token_pool.req_to_token, reporter)


def _facts(runner: Any, options: Options) -> dict[str, Any]:
    pool = runner.token_to_kv_pool
    rings, core = rings_of(pool, options), core_of(runner.model, options)
    return {
        "plugin": PLUGIN,
        "process": "scheduler",
        "ripe": {
            "core_layers": list(core),
            "loops": options.loops,
            "prefill": options.prefill,
            "requests": options.requests,
            "ring_base": rings.base,
            "ring_rows": rings.rows,
            "window": options.window,
        },
    }


@cache
def backend_class() -> type:
    """The class, made on first use because SGLang is imported then."""
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    class RipeTorchNativeBackend(TorchNativeAttnBackend):  # type: ignore[misc]
        """Prelude, coda and the last loop are SGLang's own; the other loops read as RIPE says."""

        def __init__(self, runner: Any, passes: Passes) -> None:
            super().__init__(runner)
            self.passes = passes
            self.tables = SlotTables(passes.rings, self.req_to_token_pool.req_to_token)

        def init_forward_metadata(self, forward_batch: Any) -> None:
            """Make the pass's index tables, once for all layers."""
            super().init_forward_metadata(forward_batch)
            prepare(self.passes, forward_batch)
            if forward_batch.forward_mode.is_decode() and self.passes.rings.window:
                slots, lengths = forward_batch.req_pool_indices, forward_batch.seq_lens
                self.tables.fill(slots.long(), lengths.long() - 1)

        def forward_decode(
            self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True
        ) -> Any:
            """One token of each request."""
            if not ripens(layer):
                return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache)
            self.passes.count_reads(q.shape[0])
            if not self.passes.rings.window:
                return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache)
            return decode(self, q, k, v, layer, forward_batch)

        def forward_extend(
            self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True
        ) -> Any:
            """Several tokens of each request."""
            plain = super().forward_extend
            return forward_extend(self, plain, q, k, v, layer, forward_batch, save_kv_cache)

    return RipeTorchNativeBackend


def prepare(passes: Passes, batch: Any) -> None:
    """Tell the passes what kind of pass a batch is."""
    if batch.forward_mode.is_idle():
        return
    slots = batch.req_pool_indices
    if batch.forward_mode.is_decode():
        passes.prepare_decode(slots, batch.seq_lens)
    else:
        passes.prepare_extend(slots, batch.extend_prefix_lens, batch.extend_seq_lens)


def forward_extend(
    backend: Any,
    plain: Callable[..., Any],
    q: Any,
    k: Any,
    v: Any,
    layer: Any,
    batch: Any,
    save_kv_cache: bool,
) -> Any:
    """A pass of several tokens; `plain` is the engine's own, right where no request goes on."""
    passes, own = backend.passes, not ripens(layer)
    if own or not passes.goes_on or not passes.rings.window:
        out = plain(q, k, v, layer, batch, save_kv_cache)
    else:
        out = extend(backend, q, k, v, layer, batch)
    if own:
        return out
    if passes.goes_on:
        passes.count_reads(q.shape[0])
    passes.retire(layer.looped_loop, *rows_of(backend, layer), k, v)
    return out


def decode(backend: Any, q: Tensor, k: Tensor, v: Tensor, layer: Any, batch: Any) -> Tensor:
    """A decode pass in a loop with rings: SGLang's own attention on the loop's slot table.

    q is [tokens, heads * size], k and v [tokens, kv heads, size]; the result has q's shape.
    """
    import torch

    _save(backend, k, v, layer, batch)
    keys, values = rows_of(backend, layer)
    q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
    out = torch.empty_like(q)
    backend._run_sdpa_forward_decode(
        q,
        out,
        keys,
        values,
        backend.tables.of(layer.looped_loop),
        torch.arange(q.shape[0], device=q.device),
        batch.seq_lens,
        None,
        scaling=layer.scaling,
        enable_gqa=layer.tp_q_head_num != layer.tp_k_head_num,
        causal=False,
    )
    backend.passes.retire(layer.looped_loop, keys, values, k, v)
    return out.flatten(1)


def extend(backend: Any, q: Tensor, k: Tensor, v: Tensor, layer: Any, batch: Any) -> Tensor:
    """A pass of several tokens after earlier ones: the boundary of the window moves per query."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    _save(backend, k, v, layer, batch)
    keys, values = rows_of(backend, layer)
    q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
    out, begin = torch.empty_like(q), 0
    for rows, mask in backend.passes.plan(layer.looped_loop):
        end = begin + mask.shape[0]
        out[begin:end] = scaled_dot_product_attention(
            q[begin:end].transpose(0, 1)[None],
            keys[rows].transpose(0, 1)[None],
            values[rows].transpose(0, 1)[None],
            attn_mask=mask,
            scale=layer.scaling,
            enable_gqa=layer.tp_q_head_num != layer.tp_k_head_num,
        )[0].transpose(0, 1)
        begin = end
    return out.flatten(1)


def ripens(layer: Any) -> bool:
    """Whether a layer is in a loop before the last, where the policy differs from SGLang's."""
    loop = getattr(layer, "looped_loop", None)
    return loop is not None and loop < layer.looped_loops


def _save(backend: Any, k: Tensor, v: Tensor, layer: Any, batch: Any) -> None:
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc

    where = KVWriteLoc(batch.out_cache_loc, None)
    backend.token_to_kv_pool.set_kv_buffer(layer, where, k, v)


def rows_of(backend: Any, layer: Any) -> tuple[Tensor, Tensor]:
    """Keys and values [rows, heads, size] of a layer's cache layer, ring rows included."""
    pool = backend.token_to_kv_pool
    return pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
