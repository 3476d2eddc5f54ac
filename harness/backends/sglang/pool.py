"""Bytes of an engine's KV pool by formula: what tokens and rings take, and what is padding.

u = 2 * G * h * s is what one token takes in one cache layer. A pool of N tokens holds

    full:           N * (P + K * R + C) * u
    deepest, ripe:  N * (P + K + C) * u  +  requests * W * (R - 1) * K * u    (deepest: W = 0)

SGLang allocates one page of rows more in every cache layer, for the tokens of padded batches, and
one request slot more, for their requests; the second costs nothing but where there are rings. The
ring of a request is allocated whether a request is there or not, so beside tokens a pool under
`ripe` has a fixed part.
"""

from __future__ import annotations

from harness.looped.config import LoopedConfig

FULL = "full"
DEEPEST = "deepest"
RIPE = "ripe"


def pool_bytes(
    config: LoopedConfig,
    *,
    policy: str,
    window: int,
    loops: int,
    tokens: int,
    requests: int,
    page_size: int,
    itemsize: int,
) -> int:
    """Bytes that `tokens` tokens and the rings of `requests` requests take, padding left out.

    `window` matters for `ripe` only. An engine's pool has `padding_bytes` of the same arguments on
    top of these. Raises ValueError for an unknown policy or numbers below their least.
    """
    _check(policy, window, loops, tokens, requests, page_size)
    rows = tokens * cache_layers(config, policy, loops)
    rings = requests * _ring_rows(config, policy, window, loops)
    return (rows + rings) * _row_bytes(config, itemsize)


def padding_bytes(
    config: LoopedConfig,
    *,
    policy: str,
    window: int,
    loops: int,
    page_size: int,
    itemsize: int,
) -> int:
    """Bytes of a page of rows in every cache layer and of one request slot's rings."""
    _check(policy, window, loops, 0, 0, page_size)
    rows = page_size * cache_layers(config, policy, loops)
    return (rows + _ring_rows(config, policy, window, loops)) * _row_bytes(config, itemsize)


def tokens_within(
    config: LoopedConfig,
    budget: int,
    *,
    policy: str,
    window: int,
    loops: int,
    requests: int,
    page_size: int,
    itemsize: int,
) -> int:
    """The most tokens of a pool that takes at most `budget` bytes, padding included.

    Raises ValueError when the rings and the padding alone take more.
    """
    padding = padding_bytes(
        config, policy=policy, window=window, loops=loops, page_size=page_size, itemsize=itemsize
    )
    rings = requests * _ring_rows(config, policy, window, loops) * _row_bytes(config, itemsize)
    left = budget - padding - rings
    if left < 0:
        raise ValueError(
            f"pool: found a budget of {budget} bytes, expected at least {padding + rings} for the "
            f"rings of {requests} requests and the padding"
        )
    return left // (cache_layers(config, policy, loops) * _row_bytes(config, itemsize))


def cache_layers(config: LoopedConfig, policy: str, loops: int) -> int:
    """Cache layers of an engine under a policy."""
    core = config.core * (loops if policy == FULL else 1)
    return config.prelude + core + config.coda


def _ring_rows(config: LoopedConfig, policy: str, window: int, loops: int) -> int:
    """Ring rows of one request, over all core layers."""
    return window * (loops - 1) * config.core if policy == RIPE else 0


def _row_bytes(config: LoopedConfig, itemsize: int) -> int:
    return 2 * config.n_kv_heads * config.head_dim * itemsize


def _check(
    policy: str, window: int, loops: int, tokens: int, requests: int, page_size: int
) -> None:
    if policy not in (FULL, DEEPEST, RIPE):
        raise ValueError(f"policy: found '{policy}', expected {FULL}, {DEEPEST} or {RIPE}")
    least = {"window": 0, "loops": 1, "tokens": 0, "requests": 0, "page_size": 1}
    found = (window, loops, tokens, requests, page_size)
    for (name, low), value in zip(least.items(), found, strict=True):
        if value < low:
            raise ValueError(f"{name}: found {value}, expected at least {low}")
