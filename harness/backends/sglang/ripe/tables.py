"""Which row of a cache layer a query reads for a position: pure index arithmetic.

A core layer has one tensor for keys and one for values. Its first rows are SGLang's: one for each
token of the pool. They hold the plane of the last loop that wrote them, so after a pass plane R.
Behind them lie the ring rows: for each loop below R and each request slot the last `window`
positions in that loop's own plane, position p in column p % window.

A query at position t in loop r < R reads
    t itself (and, in a pass of several tokens, the pass's own earlier tokens) from SGLang's rows,
    which loop r has just written: the own plane;
    t - window .. t - 1 from the ring: the own plane;
    everything older from SGLang's rows: plane R.
A pass writes the ring after its attention, so a position's column is free when it is written: the
one it held, window earlier, is in no later query's window.

Loops count from 1. Positions, rows and slots are int64 tensors that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rings:
    """Where the ring rows of a cache layer are.

    `base` is the first ring row, `slots` the number of request slots (SGLang's slot 0, used for
    padded batches, included).
    """

    base: int
    window: int
    loops: int
    slots: int

    @property
    def rows(self) -> int:
        """Ring rows of one cache layer: none for window 0 or a single loop."""
        return self.window * (self.loops - 1) * self.slots

    @property
    def loop_rows(self) -> int:
        """Ring rows of one loop: how far the same column of the next loop lies."""
        return self.window * self.slots

    def row(self, loop: int | Tensor, slot: Tensor, position: Tensor) -> Tensor:
        """The row that holds `position` of the request in `slot` in loop `loop`'s own plane."""
        first = self.base + (loop - 1) * self.loop_rows
        return first + slot * self.window + position % max(self.window, 1)


def in_ring(position: Tensor, query: Tensor, window: int) -> Tensor:
    """Whether a query reads an earlier position from the ring: bool, broadcast."""
    distance = query - position
    return (distance >= 1) & (distance <= window)


def decode_rows(
    rings: Rings,
    loop: int | Tensor,
    slot: Tensor,
    position: Tensor,
    query: Tensor,
    pool_row: Tensor,
) -> Tensor:
    """Rows to read for `position` in a pass of one token at `query`; all arguments broadcast.

    `pool_row` is the row that SGLang's own table has for that position; the result has its dtype.
    """
    import torch

    near = in_ring(position, query, rings.window)
    ring = rings.row(loop, slot, position).to(pool_row.dtype)
    return torch.where(near, ring, pool_row)


@dataclass(frozen=True, slots=True)
class Flat:
    """The layout of paged kernels: one vector of entries, request after request.

    `indptr` [requests + 1] says where each request begins; `request`, `position` [entries] name
    each entry.
    """

    indptr: Tensor
    request: Tensor
    position: Tensor


def flat_layout(lengths: Tensor) -> Flat:
    """The entries of requests with `lengths` [requests] positions each."""
    import torch

    ends = lengths.long().cumsum(0)
    indptr = torch.cat([ends.new_zeros(1), ends])
    request = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths.long())
    position = torch.arange(int(ends[-1]), device=lengths.device) - indptr[request]
    return Flat(indptr, request, position)


def flat_decode_rows(
    rings: Rings, loop: int, slots: Tensor, lengths: Tensor, req_to_token: Tensor
) -> tuple[Tensor, Tensor]:
    """`kv_indptr` and `kv_indices` of a decode pass in one loop, both int64.

    slots and lengths [requests] (the current token counted), req_to_token [slots, positions].
    """
    flat = flat_layout(lengths)
    slot = slots.long()[flat.request]
    pool_row = req_to_token[slot, flat.position].long()
    query = lengths.long()[flat.request] - 1
    return flat.indptr, decode_rows(rings, loop, slot, flat.position, query, pool_row)


def rewrite_flat(
    rings: Rings,
    loop: int | Tensor,
    slots: Tensor,
    lengths: Tensor,
    indptr: Tensor,
    indices: Tensor,
) -> Tensor:
    """`kv_indices` of one loop, from SGLang's own `kv_indptr` and `kv_indices` of a decode pass.

    Equal to `flat_decode_rows`, with shapes that depend on the number of requests only and without
    a look at any value, as a captured graph needs it.
    """
    import torch

    slots, lengths = slots.long().unsqueeze(1), lengths.long().unsqueeze(1)
    distance = torch.arange(1, rings.window + 1, device=indices.device)
    query = lengths - 1
    last = indptr[1 : len(lengths) + 1].long().unsqueeze(1) - 1
    position = query - distance
    inside = position >= 0
    # What lies before a request's first position is written as its current token, unchanged.
    place = torch.where(inside, last - distance, last)
    ring = rings.row(loop, slots, position.clamp(min=0)).to(indices.dtype)
    rows = torch.where(inside, ring, indices[last])
    return indices.scatter(0, place.flatten(), rows.flatten())


def ring_writes(
    slots: Tensor, starts: Tensor, counts: Tensor, window: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Which tokens of a pass enter the ring: token index, slot and position, each [written].

    Request i has tokens at positions starts[i] .. starts[i] + counts[i] - 1, flat one after the
    other; of each request only the last `window` tokens are kept, so no two share a column.
    """
    flat = flat_layout(counts)
    position = starts.long()[flat.request] + flat.position
    left = counts.long()[flat.request] - flat.position
    kept = (left <= window).nonzero().flatten()
    return kept, slots.long()[flat.request[kept]], position[kept]


def pass_rows(
    rings: Rings, loop: int, slot: int, start: int, count: int, pool_rows: Tensor
) -> tuple[Tensor, Tensor]:
    """What a pass of several tokens of one request reads: rows [keys], mask [count, keys].

    The pass has positions start .. start + count - 1 and pool_rows [start + count] are SGLang's.
    The boundary moves with the query, so the positions just before the pass are there twice: in
    plane R for the queries that are far from them, in the own plane for the near ones.
    """
    import torch

    near_count = min(rings.window, start)
    query = torch.arange(start, start + count, device=pool_rows.device).unsqueeze(1)
    far = torch.arange(start, device=pool_rows.device)
    near = torch.arange(start - near_count, start, device=pool_rows.device)
    own = torch.arange(start, start + count, device=pool_rows.device)
    slots = torch.full_like(near, slot)
    rows = torch.cat(
        [
            pool_rows[:start].long(),
            rings.row(loop, slots, near),
            pool_rows[start : start + count].long(),
        ]
    )
    mask = torch.cat(
        [query - far > rings.window, query - near <= rings.window, own <= query], dim=1
    )
    return rows, mask
