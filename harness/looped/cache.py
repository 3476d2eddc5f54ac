"""The caches: what is kept between passes, for ragged rows, under `full` and `ripe` policies.

Slot = absolute position. A pass writes at the positions that follow a row's committed length;
`commit` moves that length. So rejected tokens need no undo: what lies beyond the length is never
read before it is written again. The ring has W + b columns, b the most tokens ever written beyond
the committed length; so no write evicts one of the W tokens that are still to be read.
"""

from __future__ import annotations

from torch import Tensor

from harness.looped.addresses import Addresses
from harness.looped.errors import PolicyError
from harness.looped.memory import cache_bytes
from harness.looped.model import CODA, PRELUDE, LoopedLM, Memory
from harness.looped.passes import DraftPass, PlanePass, PromptPass
from harness.looped.planes import Store
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
        tokens ever written beyond the committed length, over several passes. Raises PolicyError
        when the policy has no compact cache.
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
        # Free columns before plane R, where an attention call gets the ring next to it.
        self._front = 0 if policy.kind == FULL else policy.number + beyond
        self._shape = (rows, capacity, config.n_kv_heads, config.head_dim)
        self.outer = {
            PRELUDE: [self._store(capacity) for _ in range(config.prelude)],
            CODA: [self._store(capacity) for _ in range(config.coda)],
        }
        rings = loops - 1 if policy.kind == RIPE else 0
        planes = loops if policy.kind == FULL else 1
        self.planes = [
            [self._store(capacity + self._front) for _ in range(config.core)] for _ in range(planes)
        ]
        self.rings = [[self._store(self._front) for _ in range(config.core)] for _ in range(rings)]
        self._addresses = Addresses(rows, capacity, self._front, policy.number, self._like)

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
        frame = self._addresses.frame(self.lengths, length)
        near = self._addresses.near(frame) if self.rings else None
        outer, deep = self._addresses.dense(frame, 0), self._addresses.dense(frame, self._front)
        return frame.positions, PlanePass(self, outer, deep, near)

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
        frame = self._addresses.frame(self.lengths, length)
        outer, deep = self._addresses.dense(frame, 0), self._addresses.dense(frame, self._front)
        return frame.positions, PromptPass(self, outer, deep, *self._addresses.tail(counts))

    def open_draft(self, loops: int, *, deepest: bool, ahead: int) -> tuple[Tensor, Memory]:
        """Positions and memory of a one-token draft pass, `ahead` tokens after the committed ones.

        What it writes lies beyond the committed length, where the verification writes again.
        """
        frame = self._addresses.frame(self.lengths, 1, ahead)
        near = self._addresses.near(frame) if self.rings and not deepest else None
        outer, deep = self._addresses.dense(frame, 0), self._addresses.dense(frame, self._front)
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


def _longest(policy: Policy, wanted: int) -> int:
    allowed = policy.longest_pass
    return wanted if allowed is None else min(wanted, allowed)
