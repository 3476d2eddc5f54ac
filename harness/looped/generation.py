"""What decoding is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.looped.errors import PolicyError

EXACT = "exact"
FULL_PROMPT = "full_prompt"
PREFILLS = (EXACT, FULL_PROMPT)

STOP = "stop"
LENGTH = "length"
NAN = "nan"

NEAR = 1e-2
"""Gaps between the best two logits below this are kept: rounding may choose the other token."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """One token a pass."""


@dataclass(frozen=True, slots=True)
class Speculative:
    """Self-speculation: drafts of a few loops, verified together at full depth.

    `draft_policy` says what drafts read: 'deepest' (the deepest plane kept of all earlier
    positions) or 'policy' (what the cache policy says). With `reuse` the drafts' loops count as
    the first loops of the verification, which resumes after them; that needs drafts that read
    exactly what verification reads: 'policy', and a window of at least `draft_tokens`.
    """

    draft_loops: int
    draft_tokens: int
    draft_policy: str = "deepest"
    reuse: bool = False

    def __post_init__(self) -> None:
        if self.draft_loops < 1 or self.draft_tokens < 1:
            raise PolicyError(
                f"draft_loops, draft_tokens: found {self.draft_loops}, {self.draft_tokens}; "
                "expected at least 1 each"
            )
        if self.draft_policy not in ("deepest", "policy"):
            raise PolicyError(
                f"draft_policy: found '{self.draft_policy}', expected 'deepest' or 'policy'"
            )
        if self.reuse and self.draft_policy != "policy":
            raise PolicyError(
                "reuse: found drafts that read the deepest plane, expected draft_policy 'policy'; "
                "verification would read other keys"
            )


Decode = Sequential | Speculative

_PREFILL_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Room:
    """What a batch asks of its cache: tokens a row, the longest pass, and tokens in flight."""

    capacity: int
    longest_pass: int
    reach: int


def room_for(prompts: Sequence[int], max_tokens: int, decode: Decode) -> Room:
    """The room that prompts of these lengths need to grow by `max_tokens` each."""
    reach = decode.draft_tokens + 1 if isinstance(decode, Speculative) else 1
    longest = max(prompts)
    return Room(
        capacity=max(longest + max_tokens + reach, _PREFILL_CHUNK),
        longest_pass=max(reach, min(_PREFILL_CHUNK, longest)),
        reach=reach,
    )


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draws at a temperature, with a seed for each row (a row's draws depend on its seed alone).

    `top_p` below 1 leaves the fewest tokens that have this much of the chance together. Ids from
    `known` on, which pad the vocabulary, are never drawn.
    """

    temperature: float
    seeds: tuple[int, ...]
    top_p: float = 1.0
    known: int | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Time of one phase in integer nanoseconds: wall clock, and CPU of the calling thread."""

    wall_ns: int
    cpu_ns: int


@dataclass(slots=True)
class Counters:
    """What was computed for one row, or for a whole batch.

    A batch counts passes: a verification split by a small window counts once for each part. A row
    counts the rounds that it took part in, under the same names; loops are counted for batches,
    those of the catch-up passes of `reuse` included, which are no draft passes.
    `tried[k]` counts drafts at place k whose predecessors were all accepted, `kept[k]` those that
    were accepted; so kept / tried is the conditional acceptance of place k.
    """

    draft_passes: int = 0
    verify_passes: int = 0
    drafted: int = 0
    accepted: int = 0
    loops_run: int = 0
    tried: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Row:
    """One finished sequence: the new token ids (a stop token included) and why it ended.

    stop_reason is 'stop', 'length', or 'nan' when a logit was not a number.
    """

    tokens: tuple[int, ...]
    stop_reason: str
    counters: Counters
    near_ties: tuple[tuple[int, float], ...] = ()
    """Places in `tokens` whose best two logits lay closer than NEAR, with the gap."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The rows of a batch with timings, counters and cache sizes in bytes.

    `cache_held_bytes` is what the cache holds at the end, `cache_peak_bytes` the most that it held
    with the tokens of a pass in flight, both by formula over all rows. `cache_allocated_bytes` is
    what was set aside for it, rings and columns not yet filled included.
    """

    rows: tuple[Row, ...]
    prefill: Phase
    decode: Phase
    total: Phase
    counters: Counters
    cache_held_bytes: int
    cache_peak_bytes: int
    cache_allocated_bytes: int = 0
