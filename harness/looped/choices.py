"""How the next token is chosen from logits: the greatest, or drawn at a temperature.

Speculation keeps the distribution of plain decoding (Leviathan et al., arXiv 2211.17192): a draft x
drawn from q is accepted with probability min(1, p(x) / q(x)); else a token is drawn from the
normalised positive part of p - q, where x has no mass. So the token after a place equals the guess
exactly when the guess was accepted, for draws as for greedy choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from harness.looped.errors import PolicyError
from harness.looped.start import check_seed, keyed_uniform

NOT_A_NUMBER = -1
"""Stands for a token chosen from logits that are not numbers."""

_DRAFT, _ACCEPT, _REST, _PLAIN = range(4)

Tokens = list[list[int]]
Gaps = list[list[float]]


class Choice(Protocol):
    """Chooses tokens from logits [B, T, vocab] at absolute positions [B or 1, T]."""

    def plain(self, logits: Tensor, positions: Tensor) -> tuple[Tokens, Gaps]:
        """The token after each place, and the gap between the best two logits there."""
        ...

    def drafted(self, logits: Tensor, positions: Tensor, ahead: int) -> Tokens:
        """A guess of the token after each place; `ahead` numbers the drafts of a round."""
        ...

    def verified(
        self, logits: Tensor, positions: Tensor, guesses: Sequence[Sequence[int | None]], first: int
    ) -> tuple[Tokens, Gaps]:
        """As `plain`, given the guesses; the first place is number `first` of the round."""
        ...


class Greedy:
    """The token of the greatest logit."""

    def plain(self, logits: Tensor, positions: Tensor) -> tuple[Tokens, Gaps]:  # noqa: ARG002
        """The greatest, and its lead over the second."""
        best = logits.topk(2, -1)
        first, second = best.values.unbind(-1)
        chosen = best.indices[..., 0].masked_fill(first.isnan(), NOT_A_NUMBER)
        gaps: Gaps = (first - second).tolist()
        tokens: Tokens = chosen.tolist()
        return tokens, gaps

    def drafted(self, logits: Tensor, positions: Tensor, ahead: int) -> Tokens:  # noqa: ARG002
        """The greatest."""
        return self.plain(logits, positions)[0]

    def verified(
        self,
        logits: Tensor,
        positions: Tensor,
        guesses: Sequence[Sequence[int | None]],  # noqa: ARG002
        first: int,  # noqa: ARG002
    ) -> tuple[Tokens, Gaps]:
        """The greatest, whatever was guessed."""
        return self.plain(logits, positions)


class Sampled:
    """Draws at a temperature; row i has seeds[i], and every draw is keyed by its position.

    So a row's tokens depend on its seed alone, not on the batch. With `top_p` below 1 the chances
    are those of the fewest tokens that have that much together (nucleus sampling, Holtzman et al.,
    arXiv 1904.09751), drafts and verification alike. Ids from `known` on have none.
    """

    def __init__(
        self,
        temperature: float,
        seeds: Sequence[int],
        top_p: float = 1.0,
        known: int | None = None,
    ) -> None:
        if not temperature > 0:
            raise PolicyError(f"temperature: found {temperature}, expected more than 0")
        if not 0 < top_p <= 1:
            raise PolicyError(f"top_p: found {top_p}, expected more than 0 and at most 1")
        self._temperature = temperature
        self._top_p = top_p
        self._known = known
        for seed in seeds:
            check_seed(seed)
        self._seeds = torch.tensor(list(seeds), dtype=torch.int64).unsqueeze(1)
        self._guessed: dict[int, Tensor] = {}

    def plain(self, logits: Tensor, positions: Tensor) -> tuple[Tokens, Gaps]:
        """Draws from softmax(logits / temperature)."""
        return self._tokens(logits, self._draw(self._chances(logits), positions, _PLAIN))

    def drafted(self, logits: Tensor, positions: Tensor, ahead: int) -> Tokens:
        """Draws, and keeps the chances for the verification."""
        chances = self._chances(logits)
        self._guessed[ahead] = chances[:, 0]
        return self._tokens(logits, self._draw(chances, positions, _DRAFT))[0]

    def verified(
        self, logits: Tensor, positions: Tensor, guesses: Sequence[Sequence[int | None]], first: int
    ) -> tuple[Tokens, Gaps]:
        """Accepts guesses or draws what is left; draws plainly where nothing was guessed."""
        chances = self._chances(logits)
        chosen = self._draw(chances, positions, _PLAIN)
        for place in range(logits.shape[1]):
            known = [row[place] for row in guesses]
            if None not in known:
                x = torch.tensor(known, device=logits.device)
                at = positions[:, place : place + 1]
                guessed = self._guessed[first + place]
                chosen[:, place] = self._judge(chances[:, place], guessed, x, at)
        return self._tokens(logits, chosen)

    def _judge(self, p: Tensor, q: Tensor, x: Tensor, position: Tensor) -> Tensor:
        """The token [B] for a guess x [B] drawn from q [B, vocab] where p [B, vocab] is wanted."""
        accept = self._uniform(len(p), position, _ACCEPT)[:, 0]
        at = x.unsqueeze(-1)
        kept = accept * q.gather(-1, at)[:, 0] < p.gather(-1, at)[:, 0]
        rest = (p - q).clamp(min=0).unsqueeze(1)
        return torch.where(kept, x, self._draw(rest, position, _REST)[:, 0])

    def _chances(self, logits: Tensor) -> Tensor:
        scaled = logits.double() / self._temperature
        if self._known is not None:
            scaled[..., self._known :] = float("-inf")
        chances = torch.softmax(scaled, -1)
        return chances if self._top_p == 1 else _nucleus(chances, self._top_p)

    def _draw(self, weights: Tensor, positions: Tensor, purpose: int) -> Tensor:
        """Draws [B, T] in proportion to weights [B, T, vocab], by the inverse of their sum."""
        sums = weights.cumsum(-1)
        wanted = self._uniform(len(weights), positions, purpose) * sums[..., -1]
        places = torch.searchsorted(sums, wanted.unsqueeze(-1), right=True)[..., 0]
        return places.clamp(max=weights.shape[-1] - 1)

    def _uniform(self, rows: int, positions: Tensor, purpose: int) -> Tensor:
        """Uniform numbers [B, T], for the token after each of the positions."""
        found = keyed_uniform(self._seeds.to(positions.device), positions + 1, purpose)
        return found.expand(rows, -1)

    def _tokens(self, logits: Tensor, chosen: Tensor) -> tuple[Tokens, Gaps]:
        broken = logits.isnan().any(-1)
        tokens: Tokens = chosen.masked_fill(broken, NOT_A_NUMBER).tolist()
        # A draw has no near ties: rounding moves its chances, not its only answer.
        gaps: Gaps = torch.full(chosen.shape, float("inf")).tolist()
        return tokens, gaps


def _nucleus(chances: Tensor, top_p: float) -> Tensor:
    """Chances [..., vocab] with all but the likeliest tokens at 0; those kept add up to 1."""
    ordered, places = chances.sort(stable=True, dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(chances).scatter(-1, places, kept / kept.sum(-1, keepdim=True))
