"""Resampling plan v1: which clusters each bootstrap replicate draws, as a formula of a frozen key.

Replicates come in blocks of 256. Block j reads raw 64-bit words of Philox at counter j·2^64, splits
each into two 32-bit halves (low first) and maps a half u to the cluster ⌊u·G/2^32⌋; replicate r of
the block takes draws rG … rG + G − 1. A block is always drawn whole and then cut, so the same key
gives the same replicates for any number of workers, any order or subset of blocks, and any prefix
of a longer run. The map's bias is below G/2^32. The key is a hash, so there is no seed to shop for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers, floats, whole
from harness.analysis.errors import AnalysisError
from harness.analysis.exact import add, slices

BLOCK = 256
DEFAULT_RESAMPLES = 9_999
MAX_CLUSTERS = 1 << 24
MAX_RESAMPLES = 10_000_000
_PIECE = 30_000
_HALF = np.uint64(32)


def resampling_key(preregistration_digest: str | bytes, analysis_id: str) -> bytes:
    """Return the 16-byte key of an analysis: SHA-256("boot-v1" ‖ 0 ‖ digest ‖ 0 ‖ id), cut."""
    digest = (
        preregistration_digest.encode()
        if isinstance(preregistration_digest, str)
        else preregistration_digest
    )
    return hashlib.sha256(b"boot-v1\0" + digest + b"\0" + analysis_id.encode()).digest()[:16]


def raw_words(key: bytes, block: int, words: int) -> npt.NDArray[np.uint64]:
    """Return raw 64-bit words of one block of the stream that `key` names."""
    return _stream(key, block).random_raw(words)


def _stream(key: bytes, block: int) -> np.random.Philox:
    return np.random.Philox(key=int.from_bytes(checked_key(key), "little"), counter=block << 64)


def checked_key(key: bytes) -> bytes:
    """Return the key, refusing anything but 16 bytes."""
    if not isinstance(key, bytes) or len(key) != 16:
        raise AnalysisError("key: needs 16 bytes; derive it with resampling_key")
    return key


def _piece_rows(clusters: int) -> int:
    """Return a power of two between 2 and 256 that keeps a piece near 30,000 entries."""
    rows = BLOCK
    while rows > 2 and rows * clusters > _PIECE:
        rows //= 2
    return rows


def indices_of(key: bytes, block: int, clusters: int) -> Iterator[tuple[int, Integers]]:
    """Yield (first replicate, clusters drawn) of one block in pieces of shape (rows, G).

    Pieces are small enough to stay in the processor's cache; the stream is that of the whole block.
    The array is overwritten by the next piece.
    """
    stream, rows = _stream(key, block), _piece_rows(clusters)
    drawn, scale = np.empty(rows * clusters, dtype=np.uint64), np.uint64(clusters)
    for first in range(0, BLOCK, rows):
        words = stream.random_raw(rows * clusters // 2)
        np.copyto(drawn, words.astype("<u8", copy=False).view("<u4"))
        np.multiply(drawn, scale, out=drawn)
        np.right_shift(drawn, _HALF, out=drawn)
        yield first, drawn.view(np.int64).reshape(rows, clusters)


def block_counts(key: bytes, block: int, clusters: int, out: Floats | None = None) -> Floats:
    """Return how often each replicate of one block draws each cluster, shape (256, G), as floats.

    `out` is filled and returned where given.
    """
    found = np.empty((BLOCK, clusters)) if out is None else out
    rows = _piece_rows(clusters)
    offsets = np.repeat(np.arange(rows, dtype=np.int64) * clusters, clusters)
    for first, drawn in indices_of(key, block, clusters):
        flat = drawn.reshape(-1)
        np.add(flat, offsets, out=flat)
        counted = np.bincount(flat, minlength=rows * clusters)
        found[first : first + rows] = counted.reshape(rows, clusters)
    return found


def blocks_of(key: bytes, clusters: int, resamples: int) -> Iterator[tuple[slice, Floats]]:
    """Yield (rows, counts) block by block; each counts array is overwritten by the next."""
    check_size(clusters, resamples)
    buffer = np.empty((BLOCK, clusters))
    for block in range(-(-resamples // BLOCK)):
        start = block * BLOCK
        stop = min(start + BLOCK, resamples)
        yield slice(start, stop), block_counts(key, block, clusters, buffer)[: stop - start]


def check_size(clusters: int, resamples: int) -> None:
    """Refuse sizes that make no sense or do not fit."""
    whole(clusters, "clusters", 1, MAX_CLUSTERS)
    whole(resamples, "resamples", 1, MAX_RESAMPLES)


def bootstrap_counts(key: bytes, clusters: int, resamples: int) -> npt.NDArray[np.int32]:
    """Return the counts of all replicates, shape (resamples, clusters); each row sums to G."""
    check_size(clusters, resamples)
    table = np.empty((int(resamples), int(clusters)), dtype=np.int32)
    for rows, counts in blocks_of(key, int(clusters), int(resamples)):
        table[rows] = counts
    return table


def resampled_sums(key: bytes, sums: npt.ArrayLike, resamples: int) -> Floats:
    """Return the sums that each replicate sees, shape (resamples, m), from sums of shape (G, m).

    One table of counts serves all metrics, which keeps their correlation. Bit-identical for any
    BLAS kernel, thread count or chunking, for integers and for other floats alike.
    """
    table = floats(sums, "sums", ndim=2)
    clusters, metrics = table.shape
    parts = slices(table, clusters)
    wide = np.concatenate(parts, axis=1)
    product = np.empty((BLOCK, wide.shape[1]))
    found = np.empty((whole(resamples, "resamples", 1, MAX_RESAMPLES), metrics))
    for rows, weights in blocks_of(key, clusters, resamples):
        height = rows.stop - rows.start
        np.matmul(weights, wide, out=product[:height])
        found[rows] = add(
            [product[:height, i * metrics : (i + 1) * metrics] for i in range(len(parts))]
        )
    return found
