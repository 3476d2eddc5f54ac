"""The caches: what is kept between passes, for ragged rows, under `full` and `ripe` policies.

Slot = absolute position. A pass writes at the positions that follow a row's committed length;
`commit` moves that length. So rejected tokens need no undo: what lies beyond the length is never
read before it is written again. The ring has W + b columns, b the most tokens ever written beyond
the committed length; so no write evicts one of the W tokens that are still to be read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.looped.errors import PolicyError
from harness.looped.memory import cache_bytes
from harness.looped.model import CODA, PRELUDE, LoopedLM, Memory
from harness.looped.passes import DraftPass, PlanePass, PromptPass
from harness.looped.planes import Dense, NearAndFar, Spot, Store
from harness.looped.policies import FULL, RIPE, Policy


class PlaneCache:
    """Keys and values of `rows` sequences, each with a length of its own."""

    def __init__(
        self,
        model: LoopedLM,
        policy: Policy,
        *,
        rows: int,
        capacity: int,
        loops: int,
        longest_pass: int,
        reach: int = 1,
    ) -> None:
        """Allocate for `capacity` tokens a row, the uncommitted ones of a pass included.

        `longest_pass` is the longest pass wanted (the policy may allow less), `reach` the most
        tokens ever written beyond the committed length, over several passes. Raises PolicyError when the policy has no compact cache.
        """
        if policy.kind not in (FULL, RIPE):
            raise PolicyError(f"policy: found {policy.label}, expected full, deepest or ripe")
        config = model.config
        self.model = model
        self.policy = policy
        self.loops = loops
        self.lengths = [0] * rows
        self.longest_pass = _longest(policy, longest_pass)
        self._like = model.tensors["transformer.ln_f.weight"]
        beyond = max(self.longest_pass, reach)
        self.ring_columns = 0 if policy.kind == FULL else policy.number + beyond
        self._shape = (rows, capacity, config.n_kv_heads, config.head_dim)
        self.outer = {
            PRELUDE: [self._store(capacity) for _ in range(config.prelude)],
            CODA: [self._store(capacity) for _ in range(config.coda)],
        }
        rings = loops - 1 if policy.kind == RIPE else 0
        planes = loops if policy.kind == FULL else 1
        self.planes = [
            [self._store(capacity + self.ring_columns) for _ in range(config.core)]
            for _ in range(planes)
        ]
        self.rings = [
            [self._store(self.ring_columns) for _ in range(config.core)] for _ in range(rings)
        ]
        device = self._like.device
        self._places = torch.arange(capacity + self.ring_columns, device=device)
        self._rows = torch.arange(rows, device=device).unsqueeze(1)

    @property
    def deep(self) -> list[Store]:
        """The stores of plane R, one for each core layer."""
        return self.planes[-1]

    def open(self, length: int, loops: int) -> tuple[Tensor, Memory]:
        """Positions and memory of an ordinary pass of `length` tokens.

        Raises PolicyError when the pass is longer than the policy (or the ring) allows.
        """
        if loops != self.loops:
            raise PolicyError(f"loops: found {loops}, expected the cache's {self.loops}")
        if self.policy.kind == RIPE and length > self.longest_pass:
            raise PolicyError(
                f"pass: found {length} tokens, expected at most {self.longest_pass} under "
                f"{self.policy.label}; split it, or use the full_prompt prefill"
            )
        positions = self.positions(length)
        near = self._near(positions) if self.rings else None
        return positions, PlanePass(self, self._dense(positions, 0), self._deep(positions), near)

    def open_prompt(self, counts: list[int]) -> tuple[Tensor, Memory]:
        """Positions and memory of the one pass of a `full_prompt` prefill.

        Row i holds counts[i] tokens, padded on the right. Under `ripe`, every query reads its own
        plane, plane R is kept, and so are all planes of the last W positions.
        """
        length = max(counts)
        if self.policy.kind == FULL:
            return self.open(length, self.loops)
        if any(self.lengths):
            raise PolicyError("full_prompt: found a cache in use, expected an empty one")
        positions = self.positions(length)
        tail = torch.tensor(counts, device=positions.device).unsqueeze(1)
        tail = tail - 1 - torch.arange(self.policy.number, device=positions.device)
        spot = Spot(None, self.policy.number, self._rows, tail.remainder(self.ring_columns))
        source = tail.clamp(min=0)
        dense = self._dense(positions, 0)
        return positions, PromptPass(self, dense, self._deep(positions), spot, source)

    def open_draft(self, loops: int, *, deepest: bool, ahead: int) -> tuple[Tensor, Memory]:
        """Positions and memory of a one-token draft pass, `ahead` tokens after the committed ones.

        What it writes lies beyond the committed length, where the verification writes again.
        """
        positions = self.positions(1, ahead)
        deep = self._deep(positions)
        near = self._near(positions) if self.rings and not deepest else None
        return positions, DraftPass(self, self._dense(positions, 0), deep, near, loops, deepest)

    def commit(self, counts: list[int]) -> None:
        """Make counts[i] tokens of the last pass of row i final."""
        self.lengths = [old + new for old, new in zip(self.lengths, counts, strict=True)]

    def positions(self, length: int, ahead: int = 0) -> Tensor:
        """Absolute positions [1 or rows, length] of the next tokens."""
        first = self.lengths[0]
        if all(other == first for other in self.lengths):
            return self._places.narrow(0, first + ahead, length).unsqueeze(0)
        begin = torch.tensor(self.lengths, device=self._places.device).unsqueeze(1)
        return begin + ahead + self._places[:length]

    def formula_bytes(self, extra: int = 0) -> int:
        """Bytes held by all rows after the formula, `extra` uncommitted tokens a row included."""
        size = self._like.element_size()
        config = self.model.config
        return sum(
            cache_bytes(config, self.policy, length + extra, self.loops, size)
            for length in self.lengths
        )

    def counted_bytes(self) -> int:
        """Bytes of every stored token that a later pass may read, store by store."""
        dense = [*self.outer[PRELUDE], *self.outer[CODA]]
        dense += [store for plane in self.planes for store in plane]
        rings = [store for plane in self.rings for store in plane]
        kept = sum(min(length, self.policy.number) for length in self.lengths)
        return sum(s.token_bytes for s in dense) * sum(self.lengths) + (
            sum(s.token_bytes for s in rings) * kept
        )

    def _store(self, columns: int) -> Store:
        rows, _, groups, head_dim = self._shape
        return Store((rows, columns, groups, head_dim), self._like)

    def _spot(self, positions: Tensor, columns: Tensor) -> Spot:
        length = positions.shape[1]
        return Spot(None, length, self._rows, columns)

    def _deep(self, positions: Tensor) -> Dense:
        return self._dense(positions, self.ring_columns)

    def _dense(self, positions: Tensor, offset: int) -> Dense:
        """Addresses for stores whose column is the position plus an offset."""
        even = positions.shape[0] == 1
        length = positions.shape[1]
        begin, end = int(positions[0, 0]), int(positions.max()) + 1
        if even:
            spot = Spot(begin + offset, length, self._rows, positions)
        else:
            spot = Spot(None, length, self._rows, positions + offset)
        mask = None
        if length > 1 or not even:
            mask = self._mask(self._places[:end] <= positions.unsqueeze(-1))
        return Dense(spot, offset, end, mask)

    def _near(self, positions: Tensor) -> NearAndFar:
        """Addresses and mask of ring and far columns for one pass."""
        window, ring = self.policy.number, self.ring_columns
        even, length = positions.shape[0] == 1, positions.shape[1]
        slots = positions.remainder(ring)
        begin = int(slots[0, 0])
        if even and begin + length <= ring:
            spot = Spot(begin, length, self._rows, slots)
        else:
            spot = Spot(None, length, self._rows, slots)
        last = positions[:, -1:]
        # The position that each ring slot holds: the largest one up to the pass's last.
        held = last - (last - self._places[:ring]).remainder(ring)
        query = positions.unsqueeze(-1)
        held = held.unsqueeze(1)
        near = (held >= 0) & (held <= query) & (query - held <= window)
        far_end = max(0, int(positions.max()) - window)
        far = self._places[:far_end] < query - window
        mask = self._mask(torch.cat([near, far], -1))
        return NearAndFar(spot, ring, ring + far_end, mask)

    def _mask(self, visible: Tensor) -> Tensor:
        mask = torch.zeros(visible.shape, dtype=self._like.dtype, device=visible.device)
        return mask.masked_fill_(~visible, float("-inf")).unsqueeze(1)


def _longest(policy: Policy, wanted: int) -> int:
    allowed = policy.longest_pass
    return wanted if allowed is None else min(wanted, allowed)
