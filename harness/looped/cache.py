"""The caches: what is kept between passes, for ragged rows, under any policy.

Slot = absolute position. A pass writes at the positions that follow a row's committed length;
`commit` moves that length. So rejected tokens need no undo: what lies beyond the length is never
read before it is written again. Planes that far positions are read in are kept for every position;
of the others a ring keeps the last positions. The ring has W + b columns, b the most tokens ever
written beyond the committed length; so no write evicts one of the W tokens that are still to be
read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.looped.addresses import Addresses, Frame
from harness.looped.errors import BudgetError, PolicyError
from harness.looped.memory import allocation_bytes, cache_bytes, ring_columns
from harness.looped.model import CODA, PRELUDE, LoopedLM, Memory
from harness.looped.names import FINAL_NORM
from harness.looped.passes import DraftPass, PlanePass, PromptPass
from harness.looped.planes import Dense, Store
from harness.looped.policies import FULL, Policy, near_mask


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
        budget: int | None = None,
    ) -> None:
        """Allocate for `capacity` tokens a row, the uncommitted ones of a pass included.

        `longest_pass` is the longest pass wanted (the policy may allow less), `reach` the most
        tokens ever written beyond the committed length, over several passes. Raises PolicyError
        when the policy does not fit the model, and BudgetError, before anything is allocated, when
        more than `budget` bytes would be.
        """
        config = model.config
        policy.check(config)
        self.model = model
        self.policy = policy
        self.loops = loops
        self.lengths = [0] * rows
        self.longest_pass = _longest(policy, longest_pass)
        self.far = [0, *(policy.far_plane(loop, loops) for loop in range(1, loops + 1))]
        """The plane of far positions by loop (from 1)."""
        self._like = model.tensors[FINAL_NORM]
        dense = policy.dense_planes(loops)
        ring = 0
        if len(dense) < loops:
            ring = ring_columns(policy, max(self.longest_pass, reach))
        check_budget(budget, self._allocation(capacity, ring))
        # Free columns before the dense planes, where an attention call gets the ring next to them.
        self._front = ring + policy.sinks if ring else 0
        self._shape = (rows, capacity, config.n_kv_heads, config.head_dim)
        self.outer = {
            PRELUDE: [self._store(capacity) for _ in range(config.prelude)],
            CODA: [self._store(capacity) for _ in range(config.coda)],
        }
        core = range(config.core)
        self.planes = {
            plane: [self._store(capacity + self._front) for _ in core] for plane in dense
        }
        self.rings = {
            loop: [self._store(self._front) for _ in core]
            for loop in range(1, loops + 1)
            if loop not in self.planes
        }
        share = config.n_heads // config.n_kv_heads
        self._addresses = Addresses(policy, rows, capacity, ring, share, self._like)

    @property
    def deep(self) -> list[Store]:
        """The stores of the deepest plane kept, one for each core layer."""
        return self.planes[max(self.planes)]

    def open(self, length: int, loops: int) -> tuple[Tensor, Memory]:
        """Positions and memory of an ordinary pass of `length` tokens.

        Raises PolicyError when the pass is longer than the policy (or the ring) allows.
        """
        if loops != self.loops:
            raise PolicyError(f"loops: found {loops}, expected the cache's {self.loops}")
        if self.policy.kind != FULL and length > self.longest_pass:
            raise PolicyError(
                f"pass: found {length} tokens, expected at most {self.longest_pass} under "
                f"{self.policy.label}; split it, or use the full_prompt prefill"
            )
        return self._plane_pass(length)

    def open_prompt(self, counts: list[int]) -> tuple[Tensor, Memory]:
        """Positions and memory of the one pass of a `full_prompt` prefill.

        Row i holds counts[i] tokens, padded on the right. Every query reads its own plane; kept
        are the dense planes, and all planes of the last W positions (and of the sinks).
        """
        length = max(counts)
        if self.policy.kind != FULL and any(self.lengths):
            raise PolicyError("full_prompt: found a cache in use, expected an empty one")
        if not self.rings:
            return self._plane_pass(length)
        frame, outer, deep = self._frame(length)
        return frame.positions, PromptPass(self, outer, deep, *self._addresses.tail(counts))

    def open_draft(self, loops: int, *, deepest: bool, ahead: int) -> tuple[Tensor, Memory]:
        """Positions and memory of a draft pass over one token, `ahead` places past the committed.

        Nothing of a draft is ever committed: verification writes the same places again.
        """
        frame, outer, deep = self._frame(1, ahead)
        near = self._addresses.near(frame) if self.rings and not deepest else None
        return frame.positions, DraftPass(self, outer, deep, near, loops, deepest)

    def commit(self, counts: list[int]) -> None:
        """Make counts[i] tokens of the last pass of row i final."""
        self.lengths = [old + new for old, new in zip(self.lengths, counts, strict=True)]

    def formula_bytes(self, extra: int = 0) -> int:
        """Bytes held by all rows after the formula, `extra` uncommitted tokens a row included."""
        size = self._like.element_size()
        config = self.model.config
        return sum(
            cache_bytes(config, self.policy, length + extra, self.loops, size)
            for length in self.lengths
        )

    def counted_bytes(self) -> int:
        """Bytes of every stored token that the next pass may read, store by store."""
        dense = [*self.outer[PRELUDE], *self.outer[CODA], *_all(self.planes)]
        groups = self.model.config.n_kv_heads
        kept = sum(self._near_heads(length) for length in self.lengths)
        return sum(store.token_bytes for store in dense) * sum(self.lengths) + (
            sum(store.token_bytes for store in _all(self.rings)) // groups * kept
        )

    def allocated_bytes(self) -> int:
        """Bytes of the memory behind every store, whether filled or not."""
        stores = [*self.outer[PRELUDE], *self.outer[CODA], *_all(self.planes), *_all(self.rings)]
        return sum(store.allocated_bytes for store in stores)

    def _near_heads(self, length: int) -> int:
        """How many (position, KV head) pairs the query at `length` reads in its own plane."""
        near = near_mask(self.policy, torch.tensor([length]), torch.arange(length))
        return int(near.sum()) * (self.model.config.n_kv_heads // near.shape[0])

    def _plane_pass(self, length: int) -> tuple[Tensor, Memory]:
        frame, outer, deep = self._frame(length)
        near = self._addresses.near(frame) if self.rings else None
        return frame.positions, PlanePass(self, outer, deep, near)

    def _frame(self, length: int, ahead: int = 0) -> tuple[Frame, Dense, Dense]:
        frame = self._addresses.frame(self.lengths, length, ahead)
        outer, deep = self._addresses.dense(frame, 0), self._addresses.dense(frame, self._front)
        return frame, outer, deep

    def _allocation(self, capacity: int, ring: int) -> int:
        return allocation_bytes(
            self.model.config,
            self.policy,
            rows=len(self.lengths),
            capacity=capacity,
            ring=ring,
            loops=self.loops,
            element_bytes=self._like.element_size(),
        )

    def _store(self, columns: int) -> Store:
        rows, _, groups, head_dim = self._shape
        return Store((rows, columns, groups, head_dim), self._like)


def _longest(policy: Policy, wanted: int) -> int:
    allowed = policy.longest_pass
    return wanted if allowed is None else min(wanted, allowed)


def _all(stores: dict[int, list[Store]]) -> list[Store]:
    return [store for plane in stores.values() for store in plane]


def check_budget(budget: int | None, needed: int) -> None:
    """Raise BudgetError where a cache needs more bytes than it may have."""
    if budget is not None and needed > budget:
        raise BudgetError(
            f"budget: the cache needs {needed} bytes, found {budget}; fewer rows, fewer tokens, or "
            "a policy that keeps fewer planes"
        )
