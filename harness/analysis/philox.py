"""Philox4x64-10 in plain Python: the guard that NumPy's bit stream is the one the plan names.

Salmon, Moraes, Dror & Shaw (2011). Slow on purpose; used to check, never to draw.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10

Block = tuple[int, int, int, int]


def philox_block(counter: Block, key: tuple[int, int]) -> Block:
    """Return the four 64-bit words of one counter."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second >> 64) ^ c1 ^ k0,
            second & _MASK,
            (first >> 64) ^ c3 ^ k1,
            first & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def philox_words(key: int, counter: int, words: int) -> list[int]:
    """Return the words that NumPy's Philox gives for this key and counter.

    NumPy adds one to the 256-bit counter before its first block.
    """
    halves = (key & _MASK, key >> 64)
    found: list[int] = []
    while len(found) < words:
        counter += 1
        parts = tuple((counter >> shift) & _MASK for shift in (0, 64, 128, 192))
        found.extend(philox_block((parts[0], parts[1], parts[2], parts[3]), halves))
    return found[:words]
