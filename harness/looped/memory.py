"""Sizes in bytes, by formula: what a cache holds, what it allocates, and what a pass needs.

u = 2 * G * h * s is what one token holds in one layer. A policy keeps D planes for every position
and, of the R - D others, the last W positions (and the sinks) of each head:

    held(N) = N * (P + K * D + C) * u + min(W + sinks, N) * (R - D) * K * u

Prelude and coda are counted once. For `full` D is R, for `ripe` D is 1 and the ring holds R - 1
planes, because plane R of a near position is already kept.
"""

from __future__ import annotations

from harness.looped.config import LoopedConfig
from harness.looped.policies import HEADS, Policy


def layer_token_bytes(config: LoopedConfig, element_bytes: int) -> int:
    """u: keys and values of one token in one layer, 2 * G * h * s."""
    return 2 * config.n_kv_heads * config.head_dim * element_bytes


def cache_bytes(
    config: LoopedConfig, policy: Policy, tokens: int, loops: int, element_bytes: int
) -> int:
    """Bytes that a row of `tokens` committed tokens holds.

    Raises PolicyError when the policy does not fit the model.
    """
    policy.check(config)
    u = layer_token_bytes(config, element_bytes)
    planes = len(policy.dense_planes(loops))
    dense = tokens * (config.prelude + config.core * planes + config.coda) * u
    windows = policy.more if policy.kind == HEADS else (policy.widest_window,) * config.n_kv_heads
    near = sum(min(window + policy.sinks, tokens) for window in windows)
    return dense + near * (loops - planes) * config.core * u // config.n_kv_heads


def scratch_bytes(config: LoopedConfig, block: int, loops: int, element_bytes: int) -> int:
    """Bytes of the `block` tokens of a pass in flight: every plane of each, b * (P + K*R + C) * u.

    A verified block has them on top of what is held, whatever the policy.
    """
    u = layer_token_bytes(config, element_bytes)
    return block * (config.prelude + config.core * loops + config.coda) * u


def prompt_bytes(
    config: LoopedConfig, policy: Policy, tokens: int, loops: int, element_bytes: int
) -> int:
    """Bytes at the end of a `full_prompt` pass over `tokens` tokens, the plane in work included.

    The pass goes loop by loop, so beside what is kept it needs one plane of K layers at most.
    """
    held = cache_bytes(config, policy, tokens, loops, element_bytes)
    if len(policy.dense_planes(loops)) == loops:
        return held
    return held + tokens * config.core * layer_token_bytes(config, element_bytes)


def ring_columns(policy: Policy, beyond: int) -> int:
    """Columns of a ring: the window, and the most tokens ever written past the committed ones."""
    return policy.widest_window + beyond


def allocation_bytes(
    config: LoopedConfig,
    policy: Policy,
    *,
    rows: int,
    capacity: int,
    ring: int,
    loops: int,
    element_bytes: int,
) -> int:
    """Bytes that a cache of `capacity` tokens a row and rings of `ring` columns allocates."""
    planes = len(policy.dense_planes(loops))
    front = ring + policy.sinks if ring else 0
    columns = (config.prelude + config.coda) * capacity
    columns += config.core * planes * (capacity + front)
    columns += config.core * (loops - planes) * front
    return rows * columns * layer_token_bytes(config, element_bytes)


def working_bytes(
    config: LoopedConfig, *, rows: int, length: int, columns: int, logits: int, element_bytes: int
) -> int:
    """Activations alive at once, at most, in a pass of `length` tokens over `columns` keys.

    An estimate from the model's code, not a bound: state and prelude output, then the larger of
    attention (queries, keys and values as projected, as they turn in float32, the output) and MLP
    (gate, up, and their product), with the mask; or the head's `logits` places with their float32
    copy.
    """
    n, h = config.n_embd, config.head_dim
    heads, groups = config.n_heads, config.n_kv_heads
    wide = max(4, element_bytes)
    turning = (3 if element_bytes == wide else 4) * (heads + groups) * h * wide
    attention = (3 * n + (heads + 2 * groups) * h + 2 * heads * h) * element_bytes + turning
    mlp = (4 * n + 4 * config.intermediate) * element_bytes
    tokens = rows * length
    body = tokens * (max(attention, mlp) + columns * element_bytes)
    head = tokens * 3 * n * element_bytes
    head += rows * logits * config.vocab * (element_bytes + wide)
    return max(body, head)
