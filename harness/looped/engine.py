"""Passes of a model over a cache: prefill, drafts, and full-depth passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.looped.cache import PlaneCache
from harness.looped.generation import FULL_PROMPT
from harness.looped.model import LoopedLM, Memory
from harness.looped.start import ZERO

NOT_A_NUMBER = -1


class Engine:
    """Greedy choices, pass by pass; NOT_A_NUMBER stands for a token chosen from NaN logits."""

    def __init__(
        self, model: LoopedLM, cache: PlaneCache, *, capacity: int, start: str, seed: int
    ) -> None:
        self.model = model
        self.cache = cache
        self.loops_run = 0
        self.peak_bytes = 0
        self.gaps: list[list[float]] = []
        """Gap between the best two logits at each place of the last pass."""
        places = torch.arange(1 if start == ZERO else capacity, device=model.device)
        self._states = model.start(start, seed, places)
        self._zero = start == ZERO

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
            tokens = self.verify(ids, pick=picked)
            counts = [len(part) for part in parts]
            self.cache.commit(counts)
            done = [d + c for d, c in zip(done, counts, strict=True)]
            chosen = [t[0] if c else old for t, c, old in zip(tokens, counts, chosen, strict=True)]
            gaps = [g if c else old for g, c, old in zip(self.gaps, counts, gaps, strict=True)]
        self.gaps = gaps
        return chosen

    def verify(self, ids: list[list[int]], pick: list[int] | None = None) -> list[list[int]]:
        """One full-depth pass; the greedy next token after each place, or after the picked one."""
        self._note_peak(len(ids[0]))
        positions, memory = self.cache.open(len(ids[0]), self.cache.loops)
        return self._greedy(ids, positions, memory, self.cache.loops, pick)

    def draft(self, tokens: list[int], loops: int, *, deepest: bool, ahead: int) -> list[int]:
        """One draft pass over one token a row, `ahead` places after the committed ones."""
        self._note_peak(ahead + 1)
        positions, memory = self.cache.open_draft(loops, deepest=deepest, ahead=ahead)
        chosen = self._greedy([[t] for t in tokens], positions, memory, loops, None)
        # A draft that is not a number is a guess like any other; verification decides.
        return [max(row[0], 0) for row in chosen]

    def _prompt_pass(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        counts = [len(p) for p in prompts]
        self._note_peak(max(counts))
        positions, memory = self.cache.open_prompt(counts)
        ids = [[*p] + [0] * (max(counts) - len(p)) for p in prompts]
        picked = [count - 1 for count in counts]
        tokens = self._greedy(ids, positions, memory, self.cache.loops, picked)
        self.cache.commit(counts)
        return [row[0] for row in tokens]

    def _greedy(
        self,
        ids: list[list[int]],
        positions: Tensor,
        memory: Memory,
        loops: int,
        pick: list[int] | None,
    ) -> list[list[int]]:
        device = self.model.device
        picked = None if pick is None else torch.tensor(pick, device=device)
        inputs = torch.tensor(ids, device=device)
        state = self._state(positions)
        logits = self.model.run(inputs, positions, loops, state, memory, picked)
        self.loops_run += loops
        best = logits.topk(2, -1)
        first, second = best.values.unbind(-1)
        chosen = best.indices[..., 0].masked_fill(first.isnan(), NOT_A_NUMBER)
        self.gaps = (first - second).tolist()
        tokens: list[list[int]] = chosen.tolist()
        return tokens

    def _state(self, positions: Tensor) -> Tensor:
        if self._zero:
            return self._states.unsqueeze(0)
        return self._states[positions]

    def _note_peak(self, extra: int) -> None:
        self.peak_bytes = max(self.peak_bytes, self.cache.formula_bytes(extra))
