"""What decoding is asked for, and what it gives back."""

from __future__ import annotations

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
    """One token a pass, greedy."""


@dataclass(frozen=True, slots=True)
class Speculative:
    """Greedy self-speculation: drafts of a few loops, verified together at full depth.

    `draft_policy` says what drafts read: 'deepest' (plane R of all earlier positions) or 'policy'
    (what the cache policy says).
    """

    draft_loops: int
    draft_tokens: int
    draft_policy: str = "deepest"

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


Decode = Sequential | Speculative


@dataclass(frozen=True, slots=True)
class Phase:
    """Time of one phase in integer nanoseconds: wall clock, and CPU of the calling thread."""

    wall_ns: int
    cpu_ns: int


@dataclass(slots=True)
class Counters:
    """What was computed for one row, or for a whole batch.

    A batch counts passes: a verification split by a small window counts once for each part. A row
    counts the rounds that it took part in, under the same names; loops are counted for batches.
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
    with the tokens of a pass in flight, both by formula over all rows.
    """

    rows: tuple[Row, ...]
    prefill: Phase
    decode: Phase
    total: Phase
    counters: Counters
    cache_held_bytes: int
    cache_peak_bytes: int
