"""Where a pass reads and writes: columns and masks for rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.errors import PolicyError
from harness.looped.planes import Dense, NearAndFar, Spot


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
    """Builds the addresses of passes over stores of `capacity` columns and rings of `ring`."""

    def __init__(self, rows: int, capacity: int, ring: int, window: int, like: Tensor) -> None:
        self._capacity = capacity
        self._ring = ring
        self._window = window
        self._dtype = like.dtype
        self._places = torch.arange(capacity + ring, device=like.device)
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
        """For a ring of the last positions and the deep columns before the window."""
        slots = frame.positions.remainder(self._ring)
        begin: int | None = frame.begin % self._ring
        if not frame.level or frame.begin % self._ring + frame.length > self._ring:
            begin = None
        spot = Spot(begin, frame.length, self._rows, slots)
        last = frame.positions[:, -1:]
        # The position that each slot holds: the largest one up to the pass's last.
        held = (last - (last - self._places[: self._ring]).remainder(self._ring)).unsqueeze(1)
        query = frame.positions.unsqueeze(-1)
        near = (held >= 0) & (held <= query) & (query - held <= self._window)
        far_end = max(0, frame.end - 1 - self._window)
        far = self._places[:far_end] < query - self._window
        mask = self._mask(torch.cat([near, far], -1))
        return NearAndFar(spot, self._ring, self._ring + far_end, mask)

    def tail(self, counts: Sequence[int]) -> tuple[Spot, Tensor]:
        """Ring slots of the last `window` positions of fresh rows, and where these come from.

        Row i holds counts[i] tokens. A row shorter than the window fills slots that belong to
        negative positions, which no mask ever shows.
        """
        ends = torch.tensor(counts, device=self._places.device).unsqueeze(1)
        positions = ends - 1 - self._places[: self._window]
        slots = positions.remainder(self._ring)
        return Spot(None, self._window, self._rows, slots), positions.clamp(min=0)

    def _mask(self, visible: Tensor) -> Tensor:
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=visible.device)
        return mask.masked_fill_(~visible, float("-inf")).unsqueeze(1)
