"""What one prompt got back, and when: token ids, text, counts and stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from harness.backends.base import Counters, Status, Timing
from harness.backends.http.client import EndpointError

T = TypeVar("T")


@dataclass
class Answer:
    """One prompt's answer while it grows; times are nanoseconds of the monotonic clock."""

    ids: list[int] = field(default_factory=list)
    """Token ids; where the server tells none, see `harness.backends.http.counting`."""
    words: list[str] = field(default_factory=list)
    """Token texts, where log-probs name them."""
    text: str = ""
    log_probs: list[float] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    retractions: int = 0
    stamps: list[tuple[int, int]] = field(default_factory=list)
    """(time, tokens so far) of every chunk that brought something; 0 tokens: not told."""
    finish: str | None = None
    """stop, length, or None while it grows."""
    ended_ns: int | None = None
    status: Status = "ok"
    error: str | None = None
    retries: int = 0

    @property
    def done(self) -> bool:
        """Whether nothing more is to come."""
        return self.ended_ns is not None

    @property
    def started(self) -> bool:
        """Whether anything of it has come, so that asking again would be a second draw."""
        return bool(self.stamps or self.ids or self.text)

    def add_ids(self, found: list[int], total: int | None) -> None:
        """Take a chunk's ids, which may be all so far or only the new ones.

        Raises:
            EndpointError: they fit neither reading of the server's own count.
        """
        ids = grown(self.ids, found, total)
        if ids is None:
            raise EndpointError(
                "protocol",
                f"token ids: found {len(found)} after {len(self.ids)}, the server counts {total}",
            )
        self.ids = ids

    def stamp(self, now_ns: int) -> None:
        """Note that a chunk brought something."""
        self.stamps.append(
            (now_ns, len(self.ids) or len(self.words) or self.completion_tokens or 0)
        )

    def end(self, now_ns: int) -> None:
        """Note that the answer is whole."""
        if self.ended_ns is None:
            self.ended_ns = now_ns

    def fail(self, status: Status, error: str, now_ns: int) -> None:
        """Note how it ended instead; the first reason stands."""
        if self.ended_ns is None:
            self.status, self.error, self.ended_ns = status, error, now_ns

    def first_ns(self, streamed: bool) -> int | None:
        """Return when the first token came; None where it never did, or nothing can tell."""
        if self.stamps:
            return self.stamps[0][0]
        return self.ended_ns if streamed and self.status == "ok" else None

    def times(self, start_ns: int) -> Counters:
        """Return the request's own times in nanoseconds from the batch's start."""
        assert self.ended_ns is not None
        found = {"e2e_ns": self.ended_ns - start_ns}
        if self.stamps:
            (first, had), (last, has) = self.stamps[0], self.stamps[-1]
            found |= {"ttft_ns": first - start_ns, "chunks": len(self.stamps)}
            if had and has > had:
                found["tpot_ns"] = (last - first) // (has - had)
            if len(self.stamps) > 1:
                gaps = zip(self.stamps, self.stamps[1:], strict=False)
                found["longest_gap_ns"] = max(b[0] - a[0] for a, b in gaps)
        return found


def grown(before: list[T], found: list[T], total: int | None) -> list[T] | None:
    """Return a list as it stands after a chunk of all its entries, or of the new ones alone.

    A chunk of all may be ahead of its own count: SGLang hands out a list that goes on growing.
    None where neither fits.
    """
    if total is None or len(before) + len(found) == total:
        return before + found
    return found[:total] if len(found) >= total else None


def batch_times(
    answers: list[Answer], start_ns: int, end_ns: int, *, streamed: bool
) -> tuple[int, int, int]:
    """Return (prefill, decode, total) of a batch in nanoseconds.

    Prefill ends with the last first token of the batch. An item that never got one counts its
    whole time in every phase, so that no arm gains by it. Without streams all of it is decoding.
    """
    total = max(1, end_ns - start_ns)
    firsts = [answer.first_ns(streamed) for answer in answers]
    if not streamed:
        return 0, total, total
    known = [first for first in firsts if first is not None]
    if len(known) < len(answers):
        return total, total, total
    prefill = min(max(known, default=start_ns) - start_ns, total)
    return prefill, total - prefill, total


def timing_of(wall: tuple[int, int, int], cpu: tuple[int, int, int] = (0, 0, 0)) -> Timing:
    """Return the wire's record of (prefill, decode, total), each wall and CPU."""
    return {
        "prefill_ns": wall[0],
        "decode_ns": wall[1],
        "total_ns": wall[2],
        "prefill_cpu_ns": cpu[0],
        "decode_cpu_ns": cpu[1],
        "total_cpu_ns": cpu[2],
    }


def hits(answers: Sequence[Answer]) -> int:
    """Return how many prompts a cache served, in part or whole."""
    return sum((answer.cached_tokens or 0) > 0 for answer in answers)
