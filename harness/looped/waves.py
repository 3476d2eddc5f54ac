"""Diagonal decoding: tokens at different depths advance together.

A wave holds the positions after a row's committed length. Each step runs `inner` loops for every
position of the wave at once, reads off the next token behind each, admits `headway` new positions,
and freezes the leading ones that are deep enough. So a token is begun before the one before it is
finished. Source: the Huginn authors' parallel sampler (arXiv 2510.14961), without its noise and its
averaged embeddings; here with batches of rows that do not depend on each other.

With `headway` 1 and `inner` equal to the loops a wave is one token: plain decoding. Otherwise
a position may have looped on a token that turns out to be another one: `on_change` says what then.
'continue' goes on from the state so far (upstream's way, an approximation); 'restart' drops that
position and all after it, and with full planes gives the tokens of plain decoding for any wave.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.cache import check_budget
from harness.looped.clock import Stopwatch, between
from harness.looped.errors import PolicyError
from harness.looped.generation import Phase
from harness.looped.model import LoopedLM
from harness.looped.start import ZERO
from harness.looped.wave_memory import (
    FULL_PLANES,
    SHARED_PLANES,
    PromptTap,
    WaveMemory,
    wave_bytes,
)

CONTINUE = "continue"
RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Wavefront:
    """How waves move.

    planes: 'full' (a query reads its own loop's plane, as the full cache) or 'shared' (one plane a
    position, the latest written, as the deepest-plane cache once frozen). `exit_change`: freeze
    early when a step changed the state by less than this share of its norm; 0 never does.
    """

    planes: str = FULL_PLANES
    inner: int = 4
    headway: int = 1
    longest: int = 128
    on_change: str = CONTINUE
    exit_change: float = 0.0

    def __post_init__(self) -> None:
        if self.planes not in (FULL_PLANES, SHARED_PLANES):
            raise PolicyError(f"planes: found '{self.planes}', expected 'full' or 'shared'")
        if self.on_change not in (CONTINUE, RESTART):
            raise PolicyError(f"on_change: found '{self.on_change}', expected continue or restart")
        if min(self.inner, self.headway, self.longest) < 1:
            found = (self.inner, self.headway, self.longest)
            raise PolicyError(f"inner, headway, longest: found {found}, expected at least 1 each")


@dataclass(frozen=True, slots=True)
class Waves:
    """The new token ids of each row (a stop token included), and what they took.

    `steps` counts the batch's passes of `inner` loops; `token_loops` the loops of single positions,
    those thrown away included. `allocated_bytes` is what was set aside for keys and values.
    """

    tokens: tuple[tuple[int, ...], ...]
    steps: int
    token_loops: int
    prefill: Phase
    decode: Phase
    total: Phase
    allocated_bytes: int


@dataclass(slots=True)
class _Front:
    """One row: committed length, tokens and depths of the wave, tokens given out."""

    row: int
    length: int
    wave: list[int]
    depths: list[int]
    out: list[int]
    open: bool = True


def wavefront(
    model: LoopedLM,
    prompts: Sequence[Sequence[int]],
    mode: Wavefront,
    *,
    loops: int | None = None,
    max_tokens: int = 128,
    stop: Collection[int] = (),
    start: str = ZERO,
    seed: int = 0,
    budget: int | None = None,
) -> Waves:
    """Greedy continuations of prompts, each read at full depth in one pass.

    Raises PolicyError when `inner` does not divide the loops, and for an empty prompt; and
    BudgetError, before anything is allocated, when keys and values need more than `budget` bytes.
    """
    count = model.loops(loops)
    check_inner(mode, count)
    if not prompts or not all(prompts):
        raise PolicyError("prompts: found an empty one or none, expected at least one token each")
    capacity = max(map(len, prompts)) + max_tokens + mode.longest
    model.check_length(capacity)
    check_budget(budget, wave_bytes(model, mode.planes, count, len(prompts), capacity))
    with torch.inference_mode():
        sampler = _Sampler(model, mode, count, len(prompts), capacity, start, seed)
        return sampler.run(prompts, max_tokens, frozenset(stop))


def check_inner(mode: Wavefront, loops: int) -> None:
    """Raise PolicyError unless a position reaches full depth after whole steps."""
    if loops % mode.inner:
        raise PolicyError(f"inner: found {mode.inner}, expected a divisor of the {loops} loops")


class _Sampler:
    """Rectangular computation over ragged waves; row by row bookkeeping."""

    def __init__(
        self,
        model: LoopedLM,
        mode: Wavefront,
        loops: int,
        rows: int,
        capacity: int,
        start: str,
        seed: int,
    ) -> None:
        self.model = model
        self.mode = mode
        self.loops = loops
        self.memory = WaveMemory(model, mode.planes, loops, rows, capacity)
        places = torch.arange(capacity, device=model.device)
        self.begin = model.start(start, seed, places)
        # States of the wave, by row and absolute position.
        shape = (rows, capacity, model.config.n_embd)
        self.states = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.steps = 0
        self.token_loops = 0

    def run(self, prompts: Sequence[Sequence[int]], limit: int, stop: frozenset[int]) -> Waves:
        """Prefill each row alone, then step until every row has ended."""
        watch = Stopwatch(self.model.device)
        fronts = [self._prefill(row, list(prompt)) for row, prompt in enumerate(prompts)]
        prefilled = watch.read()
        for front in fronts:
            _end(front, limit, stop)
        while any(front.open for front in fronts):
            self._step(fronts, limit, stop)
        end = watch.read()
        return Waves(
            tokens=tuple(tuple(f.out) for f in fronts),
            steps=self.steps,
            token_loops=self.token_loops,
            prefill=prefilled,
            decode=between(prefilled, end),
            total=end,
            allocated_bytes=self.memory.allocated_bytes(),
        )

    def _prefill(self, row: int, prompt: list[int]) -> _Front:
        ids = torch.tensor([prompt], device=self.model.device)
        positions = torch.arange(len(prompt), device=self.model.device).unsqueeze(0)
        tap = PromptTap(self.memory, row)
        state = self.begin[positions]
        logits = self.model.run(ids, positions, self.loops, state, tap)
        first = int(logits[0, -1].argmax())
        return _Front(row, len(prompt), [first], [0], [first])

    def _step(self, fronts: list[_Front], limit: int, stop: frozenset[int]) -> None:
        width = max(len(front.wave) for front in fronts if front.open)
        ids, positions, depths = self._rectangle(fronts, width)
        change, chosen = self._advance(ids, positions, depths)
        self.steps += 1
        for front, changes, tokens in zip(fronts, change, chosen, strict=True):
            if front.open:
                self.token_loops += self.mode.inner * len(front.wave)
                front.depths = [depth + self.mode.inner for depth in front.depths]
                self._settle(front, changes, tokens, limit, stop)

    def _rectangle(self, fronts: list[_Front], width: int) -> tuple[Tensor, Tensor, Tensor]:
        """ids, positions and depths [rows, width]; beyond a row's wave the depth is -1."""
        pads = [width - len(f.wave) if f.open else width for f in fronts]
        pairs = list(zip(fronts, pads, strict=True))
        ids = [([] if not f.open else f.wave) + [0] * pad for f, pad in pairs]
        positions = [[f.length + i for i in range(width)] for f, _ in pairs]
        depths = [([] if not f.open else f.depths) + [-1] * pad for f, pad in pairs]
        tensors = [torch.tensor(x, device=self.model.device) for x in (ids, positions, depths)]
        return tensors[0], tensors[1].clamp(max=len(self.begin) - 1), tensors[2]

    def _advance(
        self, ids: Tensor, positions: Tensor, depths: Tensor
    ) -> tuple[list[list[float]], list[list[int]]]:
        """`inner` loops for all places; relative change of each state, and the token after it."""
        model, rows = self.model, torch.arange(len(ids), device=ids.device).unsqueeze(1)
        self.memory.aim(positions, depths)
        table = model.rope.at(positions)
        e = model.embed(ids, table, self.memory)
        fresh = model.begin(e, self.begin[positions])
        before = torch.where((depths == 0).unsqueeze(-1), fresh, self.states[rows, positions])
        x = before
        for number in range(1, self.mode.inner + 1):
            x = model.loop(x, e, number, table, self.memory)
        live = depths >= 0
        self.states[rows.expand_as(positions)[live], positions[live]] = x[live]
        logits = model.finish(x, table, self.memory)
        change = (x - before).norm(dim=-1) / x.norm(dim=-1)
        changes: list[list[float]] = change.tolist()
        chosen: list[list[int]] = logits.argmax(-1).tolist()
        return changes, chosen

    def _settle(
        self,
        front: _Front,
        changes: list[float],
        chosen: list[int],
        limit: int,
        stop: frozenset[int],
    ) -> None:
        """Take new tokens into the wave, freeze what is deep enough, and admit new positions."""
        self._correct(front, chosen)
        frozen = 0
        while front.open and frozen < len(front.wave) and self._deep(front, changes, frozen):
            self.memory.fill(front.row, front.length + frozen, front.depths[frozen])
            front.out.append(chosen[frozen])
            frozen += 1
            _end(front, limit, stop)
        last = chosen[len(front.wave) - 1]
        front.length += frozen
        front.wave, front.depths = front.wave[frozen:], front.depths[frozen:]
        room = min(self.mode.headway, self.mode.longest - len(front.wave))
        front.wave += [last] * room
        front.depths += [0] * room

    def _correct(self, front: _Front, chosen: list[int]) -> None:
        """Later tokens of the wave become what the positions before them now say."""
        for place in range(1, len(front.wave)):
            if front.wave[place] == chosen[place - 1]:
                continue
            if self.mode.on_change == RESTART:
                del front.wave[place:], front.depths[place:]
                return
            front.wave[place] = chosen[place - 1]

    def _deep(self, front: _Front, changes: list[float], place: int) -> bool:
        return front.depths[place] >= self.loops or changes[place] < self.mode.exit_change


def _end(front: _Front, limit: int, stop: frozenset[int]) -> None:
    if front.out[-1] in stop or len(front.out) >= limit:
        front.open = False
