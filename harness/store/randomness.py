"""The one randomness: streams keyed by digests and labels, from raw Philox words.

Only `random_raw` is used: NumPy keeps it stable, while `Generator` methods may change their
streams between releases.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def nonce() -> str:
    """Return 256 fresh random bits as hex; recorded once at freeze."""
    return secrets.token_hex(32)


def derive(label: str, *parts: str) -> bytes:
    """Return SHA-256 over `parts` and a label, framed by zero bytes."""
    return hashlib.sha256("\0".join((label, *parts)).encode()).digest()


class Stream:
    """Integers and shuffles from Philox keyed by 16 bytes of a derived digest."""

    def __init__(self, label: str, *parts: str) -> None:
        key = int.from_bytes(derive(label, *parts)[:16], "little")
        self._bits = np.random.Philox(key=key)

    def below(self, bound: int) -> int:
        """Return an unbiased integer in [0, bound), by rejection."""
        limit = (1 << 64) - (1 << 64) % bound
        while True:
            word = int(self._bits.random_raw())
            if word < limit:
                return word % bound

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a Fisher–Yates shuffle of `items`."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = self.below(last + 1)
            result[last], result[other] = result[other], result[last]
        return result
