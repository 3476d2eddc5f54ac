"""What the fake engine can be told to do; every option is checked by name and type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class FakeOptions:
    """A programmable engine: its speed, its answers and its vices."""

    prefill_ms: float = 2.0
    """Per item."""
    ms_per_token: float = 1.0
    speedup: float = 1.0
    """Divides the decode time."""
    jitter: float = 0.0
    """Standard deviation of the log of each item's time."""
    drift_per_visit: float = 0.0
    """Each visit number of the run is slower than the one before by this share."""
    warmup_slow: float = 1.0
    """Factor on the first visit of each process."""
    slow_every: int = 0
    """That factor holds for every n-th visit of the run too, as after a pause between blocks."""
    warm_cache_speedup: float = 1.0
    """Divides the time of prompts that the prompt cache holds; above 1 there is such a cache."""
    cache_survives_reset: bool = False
    tokens_per_item: int = 8
    stop_early: int = 0
    """Tokens fewer than asked for, with the same text and time."""
    merged_tokens: bool = False
    """Two ids become one, as by another tokeniser of the same text."""
    chunk: int = 1
    """Tokens per pass; above 1 the engine drafts."""
    cache_bytes_per_token: int = 64
    wrong_answer_share: float = 0.0
    disagree_share: float = 0.0
    """Share of items on which the last token differs from that of an engine without this option."""
    answers: Mapping[str, str] | None = None
    """Right answers by item id; else `a + b` in the prompt is computed."""
    fingerprint: float = 0.0
    """Added to the probe's log-probs."""
    probe_unstable: bool = False
    """The probe gives other log-probs in every process."""
    probe_fails: bool = False
    """The probe's log-probs are not numbers."""
    inert: bool = False
    """Whether a patched arm claims its patch but never runs it."""
    claims: bool | None = None
    """Whether the arm claims a patch; by default, if its role is patched."""
    ghost: bool = False
    """Leave a re-parented child in a session of its own that ignores SIGTERM and keeps a port."""
    ghost_port: int = 0
    """The ghost's port; 0 takes any free one."""
    memory_growth_mib: int = 0
    """Memory that every visit takes and keeps."""
    drop_item: str | None = None
    """An item that is missing from the reply."""
    error_items: tuple[str, ...] = ()
    nan_items: tuple[str, ...] = ()
    hang_item: str | None = None
    """The process sleeps when it meets this item."""
    crash_item: str | None = None
    crash_at: int = 0
    """The process kills itself in its n-th visit."""
    out_of_memory_at: int = 0
    slow_start_s: float = 0.0
    real_sleep: bool = False
    """Sleep for as long as the virtual clock says."""
    selftest_fails: bool = False
    stray_print: str | None = None
    """Printed to standard output before every reply."""


_LISTS = ("error_items", "nan_items")
_ACCEPTED: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "bool": (bool,)}


def fake_options(values: Mapping[str, Any]) -> FakeOptions:
    """Return checked options.

    Raises:
        ValueError: an unknown name or a value of the wrong type.
    """
    known = {field.name: str(field.type) for field in fields(FakeOptions)}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"options.{name}: unknown; the fake engine takes {', '.join(known)}")
        accepted = _ACCEPTED.get(known[name])
        is_bool = isinstance(value, bool)
        if accepted and (not isinstance(value, accepted) or is_bool != (accepted == (bool,))):
            raise ValueError(f"options.{name}: found {value!r}, expected {known[name]}")
    tuples = {name: tuple(values[name]) for name in _LISTS if name in values}
    return FakeOptions(**{**values, **tuples})
