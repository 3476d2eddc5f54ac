"""Buffers of keys and values, and the two ways a pass reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.block import Attend, scaled_attention


class Store:
    """Keys and values of one layer in one plane, [rows, columns, groups, head_dim] each."""

    __slots__ = ("both", "keys", "values")

    def __init__(self, shape: tuple[int, int, int, int], like: Tensor) -> None:
        # Zeros, not empty memory: a masked NaN would still poison a softmax sum.
        self.both = torch.zeros(2, *shape, dtype=like.dtype, device=like.device)
        self.keys, self.values = self.both.unbind(0)

    @property
    def token_bytes(self) -> int:
        """Bytes of one column of one row, keys and values together."""
        return 2 * self.keys[0, 0].numel() * self.keys.element_size()

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the memory behind the store."""
        return self.both.untyped_storage().nbytes()


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the tokens of a pass are written: one slice for all rows, or an index per row."""

    begin: int | None
    length: int
    rows: Tensor
    columns: Tensor

    def write(self, store: Store, k: Tensor, v: Tensor) -> None:
        """k and v [rows, length, groups, head_dim] into the store."""
        if self.begin is not None:
            store.keys.narrow(1, self.begin, self.length).copy_(k)
            store.values.narrow(1, self.begin, self.length).copy_(v)
        else:
            store.keys.index_put_((self.rows, self.columns), k)
            store.values.index_put_((self.rows, self.columns), v)


@dataclass(frozen=True, slots=True)
class Dense:
    """Writes a pass into a store, then reads `columns` columns of it from `offset` on."""

    spot: Spot
    offset: int
    columns: int
    mask: Tensor | None

    def attend(self, store: Store) -> Attend:
        """Attention over everything stored in one plane, the pass included."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.spot.write(store, k, v)
            keys = store.keys.narrow(1, self.offset, self.columns)
            values = store.values.narrow(1, self.offset, self.columns)
            return scaled_attention(q, keys, values, self.mask)

        return call


@dataclass(frozen=True, slots=True)
class NearAndFar:
    """Reads the last positions from a ring (own plane) and the older ones from the deep store.

    The deep store keeps free columns in front, as many as a ring has; the ring is copied there,
    so that one attention call sees both. mask: additive [rows, 1, length, ring + far columns].
    """

    ring_spot: Spot
    ring_columns: int
    columns: int
    mask: Tensor

    def attend(self, ring: Store, deep: Store) -> Attend:
        """Attention over ring and deep store."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.ring_spot.write(ring, k, v)
            deep.both.narrow(2, 0, self.ring_columns).copy_(ring.both)
            keys = deep.keys.narrow(1, 0, self.columns)
            values = deep.values.narrow(1, 0, self.columns)
            return scaled_attention(q, keys, values, self.mask)

        return call
