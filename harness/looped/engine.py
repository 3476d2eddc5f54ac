"""Passes of a model over a cache: prefill, drafts, and full-depth passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.looped.cache import PlaneCache
from harness.looped.choices import NOT_A_NUMBER, Choice, Tokens
from harness.looped.generation import FULL_PROMPT
from harness.looped.model import LoopedLM, Memory
from harness.looped.start import ZERO

Guesses = Sequence[Sequence[int | None]]


class Engine:
    """Chosen tokens, pass by pass; NOT_A_NUMBER stands for a token chosen from NaN logits.

    While `keeping`, drafts leave their states behind, for `resume`.
    """

    def __init__(
        self,
        model: LoopedLM,
        cache: PlaneCache,
        choice: Choice,
        *,
        capacity: int,
        start: str,
        seed: int,
    ) -> None:
        self.model = model
        self.cache = cache
        self.choice = choice
        self.keeping = False
        self.loops_run = 0
        self.peak_bytes = 0
        self.gaps: list[list[float]] = []
        """Gap between the best two logits at each place of the last pass."""
        places = torch.arange(1 if start == ZERO else capacity, device=model.device)
        self._states = model.start(start, seed, places)
        self._zero = start == ZERO
        # Prelude outputs and states of this round's drafts, [rows, 1, n] each.
        self._kept: list[tuple[Tensor, Tensor]] = []

    def prefill(self, prompts: Sequence[Sequence[int]], mode: str) -> list[int]:
        """Read the prompts and return the first new token of each row."""
        if mode == FULL_PROMPT:
            return self._prompt_pass(prompts)
        chunk = self.cache.longest_pass
        done = [0] * len(prompts)
        chosen = [NOT_A_NUMBER] * len(prompts)
        gaps = [[0.0]] * len(prompts)
        while any(d < len(p) for d, p in zip(done, prompts, strict=True)):
            parts = [list(p[d : d + chunk]) for d, p in zip(done, prompts, strict=True)]
            length = max(map(len, parts))
            picked = [max(len(part) - 1, 0) for part in parts]
            ids = [part + [0] * (length - len(part)) for part in parts]
            tokens = self.step(ids, pick=picked)
            counts = [len(part) for part in parts]
            self.cache.commit(counts)
            done = [d + c for d, c in zip(done, counts, strict=True)]
            chosen = [t[0] if c else old for t, c, old in zip(tokens, counts, chosen, strict=True)]
            gaps = [g if c else old for g, c, old in zip(self.gaps, counts, gaps, strict=True)]
        self.gaps = gaps
        return chosen

    def step(self, ids: Tokens, pick: list[int] | None = None) -> Tokens:
        """One full-depth pass; the next token after each place, or after the picked one."""
        self._note_peak(len(ids[0]))
        positions, memory = self.cache.open(len(ids[0]), self.cache.loops)
        return self._choose(ids, positions, memory, pick)

    def verify(self, ids: Tokens, guesses: Guesses, first: int) -> Tokens:
        """One full-depth pass over drafts; the token after each place, given what was guessed.

        `first` numbers the first place in its round.
        """
        self._note_peak(len(ids[0]))
        positions, memory = self.cache.open(len(ids[0]), self.cache.loops)
        logits = self._logits(ids, positions, memory, self.cache.loops)
        chosen, self.gaps = self.choice.verified(logits, positions, guesses, first)
        return chosen

    def draft(self, tokens: list[int], loops: int, *, deepest: bool, ahead: int) -> list[int]:
        """One draft pass over one token a row, `ahead` places after the committed ones."""
        self._note_peak(ahead + 1)
        positions, memory = self.cache.open_draft(loops, deepest=deepest, ahead=ahead)
        logits = self._logits([[t] for t in tokens], positions, memory, loops, keep=self.keeping)
        chosen = self.choice.drafted(logits, positions, ahead)
        # A draft that is not a number is a guess like any other; verification decides.
        return [max(row[0], 0) for row in chosen]

    def resume(self, ids: Tokens, guesses: Guesses, loops: int) -> Tokens:
        """Verify drafts of `loops` loops that kept their states: only the loops after these.

        The last draft was never read; it is, in a pass of its own without coda. Then the kept
        states of all places go on together. Needs drafts that read as the policy says.
        """
        self._catch_up([row[-1] for row in ids], loops)
        e, x = (torch.cat(parts, 1) for parts in zip(*self._kept, strict=True))
        self._kept = []
        self._note_peak(len(ids[0]))
        positions, memory = self.cache.open(len(ids[0]), self.cache.loops)
        table = self.model.rope.at(positions)
        for number in range(loops + 1, self.cache.loops + 1):
            x = self.model.loop(x, e, number, table, memory)
        self.loops_run += self.cache.loops - loops
        logits = self.model.finish(x, table, memory)
        chosen, self.gaps = self.choice.verified(logits, positions, guesses, 0)
        return chosen

    def _catch_up(self, tokens: list[int], loops: int) -> None:
        ahead = len(self._kept)
        positions, memory = self.cache.open_draft(loops, deepest=False, ahead=ahead)
        self._keep([[t] for t in tokens], positions, memory, loops)

    def _prompt_pass(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        counts = [len(p) for p in prompts]
        self._note_peak(max(counts))
        positions, memory = self.cache.open_prompt(counts)
        ids = [[*p] + [0] * (max(counts) - len(p)) for p in prompts]
        tokens = self._choose(ids, positions, memory, [count - 1 for count in counts])
        self.cache.commit(counts)
        return [row[0] for row in tokens]

    def _choose(
        self, ids: Tokens, positions: Tensor, memory: Memory, pick: list[int] | None
    ) -> Tokens:
        picked = None if pick is None else torch.tensor(pick, device=self.model.device)
        logits = self._logits(ids, positions, memory, self.cache.loops, picked)
        if picked is not None:
            positions = positions.expand(len(ids), -1).gather(1, picked.unsqueeze(1))
        chosen, self.gaps = self.choice.plain(logits, positions)
        return chosen

    def _logits(
        self,
        ids: Tokens,
        positions: Tensor,
        memory: Memory,
        loops: int,
        pick: Tensor | None = None,
        *,
        keep: bool = False,
    ) -> Tensor:
        if not keep:
            self.loops_run += loops
            inputs = torch.tensor(ids, device=self.model.device)
            return self.model.run(inputs, positions, loops, self._state(positions), memory, pick)
        x = self._keep(ids, positions, memory, loops)
        return self.model.finish(x, self.model.rope.at(positions), memory, pick)

    def _keep(self, ids: Tokens, positions: Tensor, memory: Memory, loops: int) -> Tensor:
        """The states after `loops` loops, kept with the prelude's output."""
        table = self.model.rope.at(positions)
        e = self.model.embed(torch.tensor(ids, device=self.model.device), table, memory)
        x = self.model.begin(e, self._state(positions))
        for number in range(1, loops + 1):
            x = self.model.loop(x, e, number, table, memory)
        self.loops_run += loops
        self._kept.append((e, x))
        return x

    def _state(self, positions: Tensor) -> Tensor:
        if self._zero:
            return self._states.unsqueeze(0)
        return self._states[positions]

    def _note_peak(self, extra: int) -> None:
        self.peak_bytes = max(self.peak_bytes, self.cache.formula_bytes(extra))
