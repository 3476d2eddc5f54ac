"""One pass over a cache: which store each layer writes and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from harness.looped.block import Attend, causal_attention
from harness.looped.model import CORE
from harness.looped.planes import Dense, NearAndFar, Spot

if TYPE_CHECKING:
    from harness.looped.cache import PlaneCache


class PlanePass:
    """An ordinary pass: each core layer reads as the policy says."""

    def __init__(
        self, cache: PlaneCache, outer: Dense, deep: Dense, near: NearAndFar | None
    ) -> None:
        self.cache = cache
        self.outer = outer
        self.deep = deep
        self.near = near

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""
        cache = self.cache
        if kind != CORE:
            return self.outer.attend(cache.outer[kind][layer])
        plane = cache.far[loop]
        if plane == loop or self.near is None:
            return self.deep.attend(cache.planes[plane][layer])
        return self.near.attend(cache.rings[loop][layer], cache.planes[plane][layer])


class PromptPass(PlanePass):
    """A whole prompt: own planes inside; kept are the dense planes and what the rings hold."""

    def __init__(
        self, cache: PlaneCache, outer: Dense, deep: Dense, spot: Spot, source: Tensor
    ) -> None:
        super().__init__(cache, outer, deep, None)
        self.spot = spot
        self.source = source

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""
        cache = self.cache
        if kind != CORE or cache.far[loop] == loop:
            return super().attend(kind, layer, loop)
        ring = cache.rings[loop][layer]

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if self.spot.length:
                rows = self.spot.rows
                self.spot.write(ring, k[rows, self.source], v[rows, self.source])
            return causal_attention(q, k, v)

        return call


class DraftPass(PlanePass):
    """A draft of a few loops.

    With `deepest` it reads plane R of every committed position and the last drafted plane of
    earlier drafts; else it reads as the policy says, with the last drafted plane in place of
    deeper ones that do not exist yet.
    """

    def __init__(
        self,
        cache: PlaneCache,
        outer: Dense,
        deep: Dense,
        near: NearAndFar | None,
        loops: int,
        deepest: bool,
    ) -> None:
        super().__init__(cache, outer, deep, near)
        self.loops = loops
        self.deepest = deepest

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""
        cache = self.cache
        if kind == CORE and self.deepest:
            return self.deep.attend(cache.deep[layer])
        read = super().attend(kind, layer, loop)
        if kind != CORE or loop != self.loops:
            return read
        missing = {plane for plane in cache.far[1 : self.loops + 1] if plane > self.loops}

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out = read(q, k, v)
            for plane in missing:
                self.deep.spot.write(cache.planes[plane][layer], k, v)
            return out

        return call
