"""Where a pass reads and writes: columns and masks for rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.errors import PolicyError
from harness.looped.planes import Dense, NearAndFar, Spot
from harness.looped.policies import HEADS, Policy


@dataclass(frozen=True, slots=True)
class Frame:
    """The tokens of a pass: `positions` [1 or rows, length], one line when all rows are level.

    `begin` is the first position of row 0, `end` the position after the last one of any row.
    """

    positions: Tensor
    level: bool
    length: int
    begin: int
    end: int


class Addresses:
    """Builds the addresses of passes over stores of `capacity` columns and rings of `ring`.

    Before a ring stand the columns of the policy's sinks, which never move. `share` is the number
    of query heads for each KV head.
    """

    def __init__(
        self, policy: Policy, rows: int, capacity: int, ring: int, share: int, like: Tensor
    ) -> None:
        self._policy = policy
        self._sinks = policy.sinks
        self._share = share
        self._capacity = capacity
        self._ring = ring
        self._dtype = like.dtype
        self._places = torch.arange(capacity + ring + policy.sinks, device=like.device)
        self._rows = torch.arange(rows, device=like.device).unsqueeze(1)

    def frame(self, lengths: Sequence[int], length: int, ahead: int = 0) -> Frame:
        """The next `length` tokens, `ahead` places after the committed lengths.

        Raises PolicyError beyond the capacity.
        """
        begin, end = lengths[0] + ahead, max(lengths) + ahead + length
        if end > self._capacity:
            raise PolicyError(
                f"cache: found {end} tokens in a row, expected at most its capacity of "
                f"{self._capacity}; allocate a larger one"
            )
        level = min(lengths) == max(lengths)
        if level:
            positions = self._places[begin:end].unsqueeze(0)
        else:
            first = torch.tensor(lengths, device=self._places.device).unsqueeze(1)
            positions = first + ahead + self._places[:length]
        return Frame(positions, level, length, begin, end)

    def dense(self, frame: Frame, offset: int) -> Dense:
        """For stores whose column is the position plus an offset; all columns are read."""
        begin = frame.begin + offset if frame.level else None
        spot = Spot(begin, frame.length, self._rows, frame.positions + offset)
        mask = None
        if frame.length > 1 or not frame.level:
            mask = self._mask(self._places[: frame.end] <= frame.positions.unsqueeze(-1))
        return Dense(spot, offset, frame.end, mask)

    def near(self, frame: Frame) -> NearAndFar:
        """For a ring of the last positions (and sinks) and the deep columns before the window."""
        sinks, ring = self._sinks, self._ring
        begin: int | None = sinks + frame.begin % ring
        wraps = frame.begin % ring + frame.length > ring
        if not frame.level or wraps or frame.begin < sinks:
            begin = None
        spot = Spot(begin, frame.length, self._rows, self._slots(frame.positions))
        last = frame.positions[:, -1:]
        # The position that each slot holds: the largest one up to the pass's last.
        held = last - (last - self._places[:ring]).remainder(ring)
        query = frame.positions.unsqueeze(-1)
        near = self._seen(query, held.unsqueeze(1), lowest=sinks)
        if sinks:
            fixed = self._places[:sinks].view(1, 1, -1)
            near = torch.cat([self._seen(query, fixed, lowest=0), near], -1)
        far_end = max(0, frame.end - 1 - (self._policy.near_window or 0))
        key = self._places[:far_end]
        far = (key <= query) & (key >= sinks)
        mask = torch.cat([near, self._cut(far, ~self._near(query, key))], -1)
        return NearAndFar(spot, sinks + ring, sinks + ring + far_end, self._mask(mask))

    def tail(self, counts: Sequence[int]) -> tuple[Spot, Tensor]:
        """Ring slots of the positions of fresh rows to keep, and where these come from.

        Row i holds counts[i] tokens; kept are its last `window` ones and the sinks. A row shorter
        than these fills slots that no mask shows before they are written again.
        """
        ends = torch.tensor(counts, device=self._places.device).unsqueeze(1)
        positions = ends - 1 - self._places[: self._policy.widest_window]
        if self._sinks:
            fixed = self._places[: self._sinks].expand(len(counts), -1)
            positions = torch.cat([fixed, positions], 1)
        spot = Spot(None, positions.shape[1], self._rows, self._slots(positions))
        return spot, positions.clamp(0, max(counts) - 1)

    def _slots(self, positions: Tensor) -> Tensor:
        slots = positions.remainder(self._ring)
        if not self._sinks:
            return slots
        fixed = (positions >= 0) & (positions < self._sinks)
        return torch.where(fixed, positions, slots + self._sinks)

    def _seen(self, query: Tensor, held: Tensor, *, lowest: int) -> Tensor:
        """Whether a query reads a held position in its own plane."""
        return self._cut((held >= lowest) & (held <= query), self._near(query, held))

    def _near(self, query: Tensor, key: Tensor) -> Tensor:
        """The rule of the policy: [rows, T, keys], or [rows, heads, T, keys] where heads differ."""
        distance = query - key
        if self._policy.kind != HEADS:
            near = distance <= self._policy.widest_window
            return near | (key < self._sinks) if self._sinks else near
        limits = distance.new_tensor(self._policy.more).repeat_interleave(self._share)
        return distance.unsqueeze(1) <= limits.view(1, -1, 1, 1)

    def _cut(self, visible: Tensor, rule: Tensor) -> Tensor:
        return (visible.unsqueeze(1) if rule.dim() > visible.dim() else visible) & rule

    def _mask(self, visible: Tensor) -> Tensor:
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=visible.device)
        mask.masked_fill_(~visible, float("-inf"))
        return mask if mask.dim() == 4 else mask.unsqueeze(1)
