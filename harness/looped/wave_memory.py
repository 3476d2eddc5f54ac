"""Keys and values of waves: every position of a pass may stand in another loop."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.looped.block import Attend, causal_attention, scaled_attention
from harness.looped.memory import layer_token_bytes
from harness.looped.model import CODA, CORE, PRELUDE, LoopedLM
from harness.looped.planes import Store

FULL_PLANES = "full"
SHARED_PLANES = "shared"


class WaveMemory:
    """Stores by column = position, with a last column that nobody reads, for padding.

    `planes[layer]` has R planes, or the shared one; `aim` says where the next pass stands.
    """

    def __init__(self, model: LoopedLM, planes: str, loops: int, rows: int, capacity: int) -> None:
        config = model.config
        self.shared = planes == SHARED_PLANES
        self.loops = loops
        self._spare = capacity
        like = next(iter(model.tensors.values()))

        def store() -> Store:
            return Store((rows, capacity + 1, config.n_kv_heads, config.head_dim), like)

        self.outer = {
            PRELUDE: [store() for _ in range(config.prelude)],
            CODA: [store() for _ in range(config.coda)],
        }
        count = 1 if self.shared else loops
        # Keys and values [2, planes, rows, columns, G, h] for each core layer.
        self.planes = [
            torch.stack([store().both for _ in range(count)], 1) for _ in range(config.core)
        ]
        self._rows = torch.arange(rows, device=model.device).unsqueeze(1)
        self._columns = self._rows
        self._depths = self._rows
        self._mask = torch.zeros(0)
        self._width = 0
        self._dtype = model.dtype

    def allocated_bytes(self) -> int:
        """Bytes of every store."""
        outer = [store.both for stores in self.outer.values() for store in stores]
        return sum(both.numel() * both.element_size() for both in (*outer, *self.planes))

    def aim(self, positions: Tensor, depths: Tensor) -> None:
        """The next pass is at positions [rows, T] that have done `depths` loops; -1 is padding."""
        self._columns = positions.masked_fill(depths < 0, self._spare)
        self._depths = depths.clamp(min=0)
        self._width = int(positions.max()) + 1
        seen = torch.arange(self._width, device=positions.device) <= positions.unsqueeze(-1)
        mask = torch.zeros(seen.shape, dtype=self._dtype, device=positions.device)
        self._mask = mask.masked_fill_(~seen, float("-inf")).unsqueeze(1)

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer; `loop` counts from 1 in this pass."""
        if kind != CORE:
            both = self.outer[kind][layer].both
            return self._dense(both)
        if self.shared:
            return self._dense(self.planes[layer][:, 0])

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            place = (self._depths + loop - 1, self._rows, self._columns)
            keys, values = self.planes[layer].unbind(0)
            keys.index_put_(place, k)
            values.index_put_(place, v)
            return self._diagonal(q, keys, values, place[0])

        return call

    def fill(self, row: int, position: int, depth: int) -> None:
        """A position ends at `depth`: its deeper planes become copies of the last one."""
        if self.shared or depth >= self.loops:
            return
        for both in self.planes:
            both[:, depth:, row, position] = both[:, depth - 1 : depth, row, position]

    def keep(self, kind: str, layer: int, loop: int, row: int, k: Tensor, v: Tensor) -> None:
        """Store what a whole prompt [1, T, G, h] of one row wrote."""
        if kind == CORE:
            both = self.planes[layer][:, 0 if self.shared else loop - 1]
        else:
            both = self.outer[kind][layer].both
        both[0, row, : k.shape[1]], both[1, row, : k.shape[1]] = k[0], v[0]

    def _dense(self, both: Tensor) -> Attend:
        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            both[0].index_put_((self._rows, self._columns), k)
            both[1].index_put_((self._rows, self._columns), v)
            keys, values = both[:, :, : self._width].unbind(0)
            return scaled_attention(q, keys, values, self._mask)

        return call

    def _diagonal(self, q: Tensor, keys: Tensor, values: Tensor, planes: Tensor) -> Tensor:
        """Each query [rows, T] over the whole of its own plane: one small attention for each."""
        rows, length, heads, size = q.shape
        k, v = (x[:, :, : self._width][planes, self._rows].flatten(0, 1) for x in (keys, values))
        mask = self._mask.view(rows * length, 1, 1, self._width)
        out = scaled_attention(q.reshape(rows * length, 1, heads, size), k, v, mask)
        return out.view(rows, length, heads, size)


def wave_bytes(model: LoopedLM, planes: str, loops: int, rows: int, capacity: int) -> int:
    """Bytes that a wave's memory of `capacity` positions a row allocates, by formula.

    rows * (capacity + 1) * (P + K * planes + C) * u, with the column that nobody reads.
    """
    config = model.config
    count = 1 if planes == SHARED_PLANES else loops
    layers = config.prelude + config.core * count + config.coda
    return rows * (capacity + 1) * layers * layer_token_bytes(config, model.dtype.itemsize)


class PromptTap:
    """Causal attention over a prompt of one row, kept in a wave's memory."""

    def __init__(self, memory: WaveMemory, row: int) -> None:
        self._memory = memory
        self._row = row

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._memory.keep(kind, layer, loop, self._row, k, v)
            return causal_attention(q, k, v)

        return call
