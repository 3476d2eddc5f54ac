"""The looped language model: prelude once, core R times, coda once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.block import Attend, block_from, causal_attention, norm, run_block
from harness.looped.config import LoopedConfig
from harness.looped.errors import LoopedError
from harness.looped.names import ADAPTER, EMBEDDING, FINAL_NORM, HEAD
from harness.looped.padding import PaddedPass
from harness.looped.rope import Rope
from harness.looped.start import ZERO, start_state

PRELUDE = "prelude"
CORE = "core"
CODA = "coda"

Table = tuple[Tensor, Tensor]


class Memory(Protocol):
    """Where a pass keeps and reads keys and values; every plane is addressed explicitly."""

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer of a kind; loop is 1..R for the core and 0 elsewhere."""
        ...


class Cache(Protocol):
    """A memory that lasts from pass to pass."""

    def open(self, length: int, loops: int) -> tuple[Tensor, Memory]:
        """Absolute positions [B or 1, length] of the next pass, and its memory."""
        ...

    def commit(self, counts: list[int]) -> None:
        """Make the first tokens of the last pass final, so many for each row."""
        ...


class OnePass:
    """No memory: the pass sees itself only, each loop its own plane."""

    def attend(self, kind: str, layer: int, loop: int) -> Attend:  # noqa: ARG002
        """Plain causal attention for every layer."""
        return causal_attention


class LoopedLM:
    """A model in memory. `tensors` has our names (`names.expected_shapes`), which are Huginn's."""

    def __init__(self, config: LoopedConfig, tensors: Mapping[str, Tensor]) -> None:
        self.config = config
        self.tensors = dict(tensors)
        embedding = tensors[EMBEDDING]
        self.device = embedding.device
        self.dtype = embedding.dtype
        self.rope = Rope(config, device=self.device, dtype=self.dtype)
        self._embedding = embedding
        self._head = embedding if config.tied else tensors[HEAD]
        self._adapter = tensors[ADAPTER] if config.injects else None
        self._ln_f = tensors[FINAL_NORM]
        counts = {PRELUDE: config.prelude, "core_block": config.core, CODA: config.coda}
        prelude, core, coda = (
            tuple(block_from(tensors, f"transformer.{group}.{i}", config) for i in range(count))
            for group, count in counts.items()
        )
        self._blocks = {PRELUDE: prelude, CORE: core, CODA: coda}

    def start(self, kind: str, seed: int, positions: Tensor) -> Tensor:
        """The state before loop 1, [B or 1, T, n]."""
        width, std = self.config.n_embd, self.config.state_std
        return start_state(kind, seed, positions, width, std, self.dtype)

    def embed(self, ids: Tensor, table: Table, memory: Memory) -> Tensor:
        """ids [B, T] to the prelude's output e [B, T, n], which stays fixed for all loops."""
        x = functional.embedding(ids, self._embedding) * self.config.embed_scale
        return self._run(PRELUDE, 0, x, table, memory)

    def begin(self, e: Tensor, state: Tensor) -> Tensor:
        """The state [B, T, n] before loop 1: `state`, or e where nothing is injected later."""
        return state.expand_as(e) if self.config.injects else e

    def loop(self, x: Tensor, e: Tensor, number: int, table: Table, memory: Memory) -> Tensor:
        """Loop `number` (from 1): the adapter on state and e, then the core blocks."""
        if self._adapter is not None:
            x = functional.linear(torch.cat([x, e], -1), self._adapter)
        x = self._run(CORE, number, x, table, memory)
        return norm(x, self._ln_f, self.config.norm_eps) if self.config.norm_after_loop else x

    def finish(self, x: Tensor, table: Table, memory: Memory, pick: Tensor | None = None) -> Tensor:
        """The state after the last loop to logits, float32 (float64 in a float64 model).

        x is [B, T, n]; the result is [B, T, vocab], or [B, 1, vocab] for the one place in each row
        that `pick` [B] names.
        """
        eps = self.config.norm_eps
        if self.config.norm_before_coda:
            x = norm(x, self._ln_f, eps)
        x = self._run(CODA, 0, x, table, memory)
        if pick is not None:
            x = x.gather(1, pick.view(-1, 1, 1).expand(-1, 1, x.shape[-1]))
        if not self.config.norm_after_loop:
            x = norm(x, self._ln_f, eps)
        logits = functional.linear(x, self._head)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _run(self, kind: str, loop: int, x: Tensor, table: Table, memory: Memory) -> Tensor:
        for index, block in enumerate(self._blocks[kind]):
            attend = memory.attend(kind, index, loop)
            x = run_block(block, self.config, self.rope, x, table, attend)
        return x

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        loops: int,
        state: Tensor,
        memory: Memory,
        pick: Tensor | None = None,
    ) -> Tensor:
        """One pass over tokens ids [B, T] at absolute positions [B or 1, T], as `finish` has it."""
        table = self.rope.at(positions)
        e = self.embed(ids, table, memory)
        x = self.begin(e, state)
        for number in range(1, loops + 1):
            x = self.loop(x, e, number, table, memory)
        return self.finish(x, table, memory, pick)

    def forward(
        self,
        ids: Tensor,
        *,
        loops: int | None = None,
        start: str | Tensor = ZERO,
        seed: int = 0,
        cache: Cache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, T, vocab] of token ids [B, T].

        Without a cache the rows begin at position 0; with one they go on where it ends, the pass
        must not be longer than its policy allows, and it is committed. `start` is 'zero', 'keyed'
        or a state [B, T, n]; loops defaults to the config's number. `mask` [B, T], bool or integer,
        is true for real tokens: padding on either side changes nothing, its own logits aside.
        Raises LoopedError for a mask beside a cache, whose rows need no padding.
        """
        count = self.loops(loops)
        length = ids.shape[1]
        if cache is None:
            self.check_length(length)
            positions = torch.arange(length, device=self.device).unsqueeze(0)
            memory: Memory = OnePass()
            if mask is not None:
                memory = padded = PaddedPass(mask, ids, self.dtype)
                positions = padded.positions
        else:
            if mask is not None:
                raise LoopedError("mask: found one beside a cache, expected rows without padding")
            positions, memory = cache.open(length, count)
        state = start if isinstance(start, Tensor) else self.start(start, seed, positions)
        logits = self.run(ids, positions, count, state, memory)
        if cache is not None:
            cache.commit([length] * ids.shape[0])
        return logits

    __call__ = forward

    def loops(self, loops: int | None) -> int:
        """The number of loops asked for, or the config's. Raises LoopedError below 1."""
        count = self.config.loops if loops is None else loops
        if count < 1:
            raise LoopedError(f"loops: found {count}, expected at least 1")
        return count

    def check_length(self, tokens: int) -> None:
        """Refuse rows longer than the rotary table."""
        if tokens > self.config.block_size:
            raise LoopedError(
                f"tokens: found {tokens} in a row, expected at most {self.config.block_size}; "
                "shorten the prompt or the answer"
            )
