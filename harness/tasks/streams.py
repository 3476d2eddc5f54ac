"""Reproducible random integers: the same on every machine and under every library version."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_WORD_BYTES = 8
_WORD_RANGE = 1 << (8 * _WORD_BYTES)


class Stream:
    """An endless sequence of integers that depends only on the key.

    Word i is eight bytes of SHA-256(key digest, block number); no library generator is involved,
    so the sequence cannot change under a dependency upgrade.
    """

    def __init__(self, *key: str | int | bytes) -> None:
        self._key = hashlib.sha256(b"\x1f".join(_as_bytes(part) for part in key)).digest()
        self._block = 0
        self._words: list[int] = []

    def word(self) -> int:
        """The next integer in [0, 2**64)."""
        if not self._words:
            digest = hashlib.sha256(self._key + self._block.to_bytes(8, "big")).digest()
            self._block += 1
            starts = range(0, len(digest), _WORD_BYTES)
            self._words = [int.from_bytes(digest[i : i + _WORD_BYTES], "big") for i in starts]
            self._words.reverse()
        return self._words.pop()

    def below(self, limit: int) -> int:
        """An integer in [0, limit); the bias is at most limit / 2**64."""
        if limit < 1:
            raise ValueError(f"limit: found {limit}, expected at least 1")
        return self.word() * limit // _WORD_RANGE

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high], both ends included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True in `percent` cases of a hundred."""
        return self.below(100) < percent

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each equally likely."""
        return options[self.below(len(options))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options, in random order."""
        rest = list(options)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]


def _as_bytes(part: str | int | bytes) -> bytes:
    return part if isinstance(part, bytes) else str(part).encode()
