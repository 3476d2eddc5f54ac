"""What fits into a memory budget, before anything is allocated.

A model of M0 bytes serves B rows of N tokens in M0 + B * (held(N) + a) bytes, where `a` is what a
row needs beside its cache (activations, scratch of a verified block). M0 and `a` are parameters:
measure them, or take the formulas here. Bytes are decimal: GB = 10^9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.looped.config import LoopedConfig
from harness.looped.errors import PolicyError
from harness.looped.generation import FULL_PROMPT, Decode, room_for
from harness.looped.memory import (
    allocation_bytes,
    cache_bytes,
    ring_columns,
    scratch_bytes,
    working_bytes,
)
from harness.looped.policies import Policy
from harness.looped.weights import outline, parameters


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes: all there is, the model's weights M0, and `row_bytes` a beside each row's cache."""

    total: int
    weights: int
    row_bytes: int = 0

    @property
    def free(self) -> int:
        """Bytes left beside the weights."""
        return self.total - self.weights


@dataclass(frozen=True, slots=True)
class Fit:
    """What a policy allows: rows of the asked length, and the longest single row.

    `bytes_per_row` is the cache of one row of that length, without `row_bytes`.
    """

    policy: Policy
    bytes_per_row: int
    rows: int
    longest: int


def weight_bytes(config: LoopedConfig, element_bytes: int) -> int:
    """Bytes of a model's tensors; a tied head counts once."""
    return parameters(outline(config)) * element_bytes


def block_scratch(config: LoopedConfig, draft_tokens: int, loops: int, element_bytes: int) -> int:
    """Bytes a row needs to verify a pending token and its drafts, on top of what it holds."""
    return scratch_bytes(config, draft_tokens + 1, loops, element_bytes)


def peak_bytes(
    config: LoopedConfig,
    policy: Policy,
    *,
    prompts: Sequence[int],
    max_tokens: int,
    prefill: str,
    decode: Decode,
    loops: int | None = None,
    element_bytes: int = 2,
) -> int:
    """Predicted peak of `generate` beside the weights, for prompts of these lengths.

    The whole cache as allocated, which holds the verified block's scratch, and the activations of
    the largest pass: the prompt as one pass, or its longest piece, or a verified block.
    """
    count = config.loops if loops is None else loops
    room = room_for(prompts, max_tokens, decode)
    longest = min(room.longest_pass, policy.longest_pass or room.longest_pass)
    ring = 0
    if len(policy.dense_planes(count)) < count:
        ring = ring_columns(policy, max(longest, room.reach))
    allocated = allocation_bytes(
        config,
        policy,
        rows=len(prompts),
        capacity=room.capacity,
        ring=ring,
        loops=count,
        element_bytes=element_bytes,
    )
    whole = prefill == FULL_PROMPT

    def working(length: int, columns: int, logits: int) -> int:
        return working_bytes(
            config,
            rows=len(prompts),
            length=length,
            columns=columns,
            logits=logits,
            element_bytes=element_bytes,
        )

    reading = working(max(prompts) if whole else longest, max(prompts) + (0 if whole else ring), 1)
    block = working(room.reach, max(prompts) + max_tokens + ring, room.reach)
    return allocated + max(reading, block)


def plan(
    config: LoopedConfig,
    budget: Budget,
    policies: Sequence[Policy],
    *,
    tokens: int,
    loops: int | None = None,
    element_bytes: int = 2,
) -> list[Fit]:
    """What fits under each policy, for rows of `tokens` tokens.

    Raises PolicyError when the weights alone do not fit, or no token was asked for.
    """
    if tokens < 1:
        raise PolicyError(f"tokens: found {tokens}, expected at least 1")
    if budget.free < 0:
        raise PolicyError(
            f"budget: found {budget.total} bytes, expected at least the {budget.weights} of the "
            "weights"
        )
    count = config.loops if loops is None else loops
    fits = []
    for policy in policies:
        one = cache_bytes(config, policy, tokens, count, element_bytes)
        rows = budget.free // (one + budget.row_bytes)
        longest = _longest(config, budget, policy, count, element_bytes)
        fits.append(Fit(policy, one, rows, longest))
    return fits


def _longest(
    config: LoopedConfig, budget: Budget, policy: Policy, loops: int, element_bytes: int
) -> int:
    """The most tokens that one row may have; held bytes grow with tokens, so halve the range."""
    free = budget.free - budget.row_bytes
    low, high = 0, config.block_size
    while low < high:
        middle = (low + high + 1) // 2
        if cache_bytes(config, policy, middle, loops, element_bytes) <= free:
            low = middle
        else:
            high = middle - 1
    return low
