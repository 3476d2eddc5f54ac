"""SGLang's triton attention, with other rows to read in the core's loops: one index buffer a loop.

Decode is SGLang's kernel on rewritten `kv_indices`. Passes of several tokens that go on after
earlier ones (chunks of the exact prefill) run as plain attention, request by request.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.ripe.backend import (
    forward_extend,
    make_passes,
    prepare,
    ripens,
    rows_of,
)
from harness.backends.sglang.ripe.checks import TRITON
from harness.backends.sglang.ripe.options import Options
from harness.backends.sglang.ripe.passes import Passes
from harness.backends.sglang.ripe.tables import Rings, rewrite_flat

if TYPE_CHECKING:
    from torch import Tensor


class LoopIndices:
    """A preallocated `kv_indices` for each loop with rings."""

    def __init__(self, rings: Rings, like: Tensor, capacity: int) -> None:
        self._rings = rings
        self._buffers = like.new_zeros(rings.loops - 1, capacity)
        self._entries = 0

    def fill(self, slots: Tensor, lengths: Tensor, indptr: Tensor, indices: Tensor) -> None:
        """Rewrite the entries of a decode pass for every loop."""
        self._entries = len(indices)
        for loop in range(1, self._rings.loops):
            rows = rewrite_flat(self._rings, loop, slots, lengths, indptr, indices)
            self._buffers[loop - 1, : self._entries] = rows

    def of(self, loop: int) -> Tensor:
        """The entries of one loop."""
        return self._buffers[loop - 1, : self._entries]


def make_backend(runner: Any, options: Options) -> Any:
    """The backend for a model runner. Raises RipeError for an engine it does not fit."""
    return backend_class()(runner, make_passes(runner, options, TRITON))


@cache
def backend_class() -> type:
    """The class, made on first use because SGLang and triton are imported then."""
    import torch
    from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

    class RipeTritonBackend(TritonAttnBackend):  # type: ignore[misc]
        """Prelude, coda and the last loop are SGLang's own; the other loops read as RIPE says."""

        def __init__(self, runner: Any, passes: Passes) -> None:
            super().__init__(runner)
            self.passes = passes
            like = torch.zeros(0, dtype=torch.int64, device=runner.device)
            self.indices = LoopIndices(passes.rings, like, self.token_to_kv_pool.size)

        def init_forward_metadata(self, forward_batch: Any) -> None:
            """Make the pass's index vectors, once for all layers."""
            super().init_forward_metadata(forward_batch)
            prepare(self.passes, forward_batch)
            if forward_batch.forward_mode.is_decode() and self.passes.rings.window:
                fill(self, forward_batch)

        def forward_decode(
            self,
            q: Any,
            k: Any,
            v: Any,
            layer: Any,
            forward_batch: Any,
            save_kv_cache: bool = True,
            **named: Any,
        ) -> Any:
            """One token of each request, by SGLang's kernel."""
            plain = super().forward_decode
            if not ripens(layer):
                return plain(q, k, v, layer, forward_batch, save_kv_cache, **named)
            self.passes.count_reads(q.shape[0])
            if not self.passes.rings.window:
                return plain(q, k, v, layer, forward_batch, save_kv_cache, **named)
            metadata = self.forward_metadata
            own = metadata.kv_indices
            metadata.kv_indices = self.indices.of(layer.looped_loop)
            try:
                out = plain(q, k, v, layer, forward_batch, save_kv_cache, **named)
            finally:
                metadata.kv_indices = own
            self.passes.retire(layer.looped_loop, *rows_of(self, layer), k, v)
            return out

        def forward_extend(
            self,
            q: Any,
            k: Any,
            v: Any,
            layer: Any,
            forward_batch: Any,
            save_kv_cache: bool = True,
            **_named: Any,
        ) -> Any:
            """Several tokens of each request."""
            plain = super().forward_extend
            return forward_extend(self, plain, q, k, v, layer, forward_batch, save_kv_cache)

    return RipeTritonBackend


def fill(backend: Any, batch: Any) -> None:
    """Rewrite SGLang's entries of a decode batch for every loop."""
    metadata = backend.forward_metadata
    entries = int(batch.seq_lens.sum())
    backend.indices.fill(
        batch.req_pool_indices,
        batch.seq_lens,
        metadata.kv_indptr,
        metadata.kv_indices[:entries],
    )
