"""Cache size in bytes, by formula."""

from __future__ import annotations

from harness.looped.config import LoopedConfig
from harness.looped.errors import PolicyError
from harness.looped.policies import FULL, RIPE, Policy


def layer_token_bytes(config: LoopedConfig, element_bytes: int) -> int:
    """u: keys and values of one token in one layer, 2 * G * h * s."""
    return 2 * config.n_kv_heads * config.head_dim * element_bytes


def cache_bytes(
    config: LoopedConfig, policy: Policy, tokens: int, loops: int, element_bytes: int
) -> int:
    """Bytes that a row of `tokens` committed tokens holds.

    full: N * (P + K*R + C) * u; ripe: N * (P + K + C) * u + min(W, N) * (R - 1) * K * u.
    Raises PolicyError for policies without a compact cache.
    """
    u = layer_token_bytes(config, element_bytes)
    outer = config.prelude + config.coda
    if policy.kind == FULL:
        return tokens * (outer + config.core * loops) * u
    if policy.kind == RIPE:
        dense = tokens * (outer + config.core) * u
        return dense + min(policy.number, tokens) * (loops - 1) * config.core * u
    raise PolicyError(f"policy: found {policy.label}, expected full, deepest or ripe for a cache")
