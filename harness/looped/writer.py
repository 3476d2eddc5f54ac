"""The growing answer of one row."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.looped.choices import NOT_A_NUMBER
from harness.looped.generation import LENGTH, NAN, NEAR, STOP, Counters, Row


class Writer:
    """Takes tokens until a stop token, the limit, or logits that are not numbers."""

    def __init__(self, limit: int, stop: Collection[int]) -> None:
        self.tokens: list[int] = []
        self.reason: str | None = None
        self.counters = Counters()
        self.near_ties: list[tuple[int, float]] = []
        self._limit = limit
        self._stop = stop

    @property
    def open(self) -> bool:
        """Whether the row still grows."""
        return self.reason is None

    @property
    def pending(self) -> int:
        """The last token, which no full-depth pass has read yet; 0 before the first."""
        return self.tokens[-1] if self.tokens else 0

    def add(self, tokens: Sequence[int], gaps: Sequence[float]) -> int:
        """Take tokens up to the end of the row; return how many were taken."""
        for count, (token, gap) in enumerate(zip(tokens, gaps, strict=True), 1):
            if token == NOT_A_NUMBER:
                self.reason = NAN
                return count - 1
            if gap < NEAR:
                self.near_ties.append((len(self.tokens), gap))
            self.tokens.append(token)
            if token in self._stop:
                self.reason = STOP
            elif len(self.tokens) == self._limit:
                self.reason = LENGTH
            if self.reason is not None:
                return count
        return len(tokens)

    def accept(self, drafts: list[int], chosen: list[int], gaps: list[float]) -> int:
        """Take the accepted drafts and the token after them; return how many tokens to commit."""
        if not self.open:
            return 0
        agreed = 0
        while agreed < len(drafts) and drafts[agreed] == chosen[agreed]:
            agreed += 1
        taken = self.add(chosen[: agreed + 1], gaps[: agreed + 1])
        counters = self.counters
        counters.verify_passes += 1
        counters.drafted += len(drafts)
        counters.accepted += min(agreed, taken)
        for place in range(min(agreed + 1, len(drafts), max(taken, 1))):
            counters.tried[place] += 1
            counters.kept[place] += place < agreed
        return taken

    def row(self) -> Row:
        """The finished row."""
        assert self.reason is not None
        return Row(tuple(self.tokens), self.reason, self.counters, tuple(self.near_ties))
