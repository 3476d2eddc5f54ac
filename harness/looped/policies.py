"""Cache policies: which plane a query reads for a key, as a pure function.

Every policy here has one form. A key is *near* when it stands among the last `window` earlier
positions, or among the first `sinks`; a near key is read in the loop's own plane, as the query
itself is. Any other key is read in the plane `far_plane(loop)`. The policies differ in window,
sinks and far plane; none of them knows where passes begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.looped.config import LoopedConfig
from harness.looped.errors import PolicyError

FULL = "full"
RIPE = "ripe"
FIRST = "first_loops"
LAST = "last_loops"
EVERY = "every_nth"
SINKS = "sinks_ripe"
SECOND = "second_plane"
HEADS = "per_head"
COMPRESS = "compress"

UPSTREAM_CORE = 4
"""Core layers that upstream's slot arithmetic is written for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule for reading core planes; make one with the functions below.

    `number` is the window, or the count (of loops, planes or slots) that the kind asks for; `more`
    holds what else a kind needs: the sinks, the second plane, or one window for each KV head.
    """

    kind: str
    number: int = 0
    more: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """A short name, such as `full`, `deepest` or `ripe(16)`."""
        if self.kind == FULL:
            return FULL
        if self == deepest():
            return "deepest"
        numbers = self.more if self.kind == HEADS else (*self.more, self.number)
        return f"{self.kind}({','.join(map(str, numbers))})"

    @property
    def longest_pass(self) -> int | None:
        """Most tokens that one pass may hold, or None for any number.

        A longer pass would have to read planes of its own tokens that do not exist yet.
        """
        return None if self.near_window is None or self.kind == FIRST else self.near_window + 1

    def plane(
        self, *, query: int, loop: int, key: int, loops: int, prompt: int = 0, head: int = 0
    ) -> int:
        """The plane (1..loops) that `query` reads for `key` in loop `loop`, in KV head `head`.

        query and key are absolute positions. Queries below `prompt` read their own planes, as
        the `full_prompt` prefill does; `exact` has prompt = 0.
        """
        if not (0 <= key <= query and 1 <= loop <= loops):
            raise PolicyError(
                f"plane: found query {query}, key {key}, loop {loop} of {loops}; "
                "expected 0 <= key <= query and 1 <= loop <= loops"
            )
        window = self.window_of(head)
        if window is None or query < prompt or query - key <= window or key < self.sinks:
            return loop
        return self.far_plane(loop, loops)

    @property
    def near_window(self) -> int | None:
        """How many earlier positions every head reads in the loop's own plane; None means all."""
        if self.kind == HEADS:
            return min(self.more)
        return self.window_of(0)

    @property
    def widest_window(self) -> int:
        """The largest window of any head; 0 for `full`, which has none."""
        return max(self.more) if self.kind == HEADS else self.window_of(0) or 0

    @property
    def sinks(self) -> int:
        """First positions of a text that are always read in the loop's own plane."""
        return self.more[0] if self.kind == SINKS else 0

    def window_of(self, head: int) -> int | None:
        """The window of one KV head; None means all positions."""
        if self.kind == FULL:
            return None
        if self.kind == HEADS:
            return self.more[head]
        return self.number if self.kind in (RIPE, SINKS, SECOND) else 0

    def far_plane(self, loop: int, loops: int) -> int:
        """The plane read in `loop` for positions that are not near.

        A plane that is read this way in any loop is its own far plane.
        """
        if self.kind == FULL:
            return loop
        if self.kind == FIRST:
            return min(loop, self.number)
        if self.kind == LAST:
            return max(loop, loops - self.number + 1)
        if self.kind == EVERY:
            return loops - (loops - loop) // self.number * self.number
        if self.kind == COMPRESS:
            return loops - (loops - loop) % (self.number // UPSTREAM_CORE)
        if self.kind == SECOND and loop <= self.more[0]:
            return min(self.more[0], loops)
        return loops

    def dense_planes(self, loops: int) -> list[int]:
        """The planes that are kept for every position, in order."""
        return sorted({self.far_plane(loop, loops) for loop in range(1, loops + 1)})

    def check(self, config: LoopedConfig) -> None:
        """Raise PolicyError when the policy does not fit a model."""
        if self.kind == HEADS and len(self.more) != config.n_kv_heads:
            raise PolicyError(
                f"{self.label}: found {len(self.more)} windows, expected one for each of the "
                f"{config.n_kv_heads} KV heads"
            )
        if self.kind == COMPRESS and (config.prelude, config.core) != (2, UPSTREAM_CORE):
            raise PolicyError(
                f"{self.label}: found {config.prelude}/{config.core}/{config.coda} layers; "
                "upstream's slots are right for 2 prelude and 4 core layers only"
            )


def near_mask(policy: Policy, queries: Tensor, keys: Tensor) -> Tensor:
    """Which keys are near: bool [heads or 1, queries, keys], for positions [queries] and [keys].

    A key after its query is near by this rule; the causal mask is the caller's. The first
    dimension has the KV heads where these differ, else 1.
    """
    distance = queries.unsqueeze(-1) - keys
    if policy.kind == FULL:
        return distance.new_ones(1, *distance.shape).bool()
    windows = policy.more if policy.kind == HEADS else (policy.widest_window,)
    limits = distance.new_tensor(windows).view(-1, 1, 1)
    return (distance <= limits) | (keys < policy.sinks)


def full() -> Policy:
    """Every loop reads its own plane of every position."""
    return Policy(FULL)


def deepest() -> Policy:
    """Every loop reads the last plane of every earlier position: RIPE with window 0."""
    return ripe(0)


def ripe(window: int) -> Policy:
    """Own plane for the last `window` earlier positions, the last plane beyond."""
    return Policy(RIPE, _at_least(window, 0, "window"))


def first_loops(count: int) -> Policy:
    """Only planes 1..count are kept; later loops read plane `count` of earlier positions."""
    return Policy(FIRST, _at_least(count, 1, "first_loops"))


def last_loops(count: int) -> Policy:
    """Only the last `count` planes are kept; earlier loops read the first of these."""
    return Policy(LAST, _at_least(count, 1, "last_loops"))


def every_nth(step: int) -> Policy:
    """Planes R, R - step, R - 2 step, … are kept; a loop reads the next kept one from it on."""
    return Policy(EVERY, _at_least(step, 1, "every_nth"))


def sinks_ripe(sinks: int, window: int) -> Policy:
    """RIPE that also keeps all planes of the first `sinks` positions."""
    return Policy(SINKS, _at_least(window, 0, "window"), (_at_least(sinks, 0, "sinks"),))


def second_plane(plane: int, window: int = 0) -> Policy:
    """RIPE with another plane kept: loops up to `plane` read that one, later loops the last."""
    return Policy(SECOND, _at_least(window, 0, "window"), (_at_least(plane, 1, "second_plane"),))


def per_head(windows: tuple[int, ...]) -> Policy:
    """RIPE with a window for each KV head: each head filters positions for itself."""
    if not windows:
        raise PolicyError("per_head: found no windows, expected one for each KV head")
    return Policy(HEADS, 0, tuple(_at_least(w, 0, "window") for w in windows))


def compress(slots: int) -> Policy:
    """Upstream's compress-sS on 2 prelude and 4 core layers: later loops overwrite earlier ones.

    S slots keep S / 4 planes; loop r reads the deepest loop congruent to r. compress(4) is the
    deepest plane. Source: the public Huginn modeling file. Other slot counts mix layers there.
    """
    if slots < UPSTREAM_CORE or slots % UPSTREAM_CORE:
        raise PolicyError(f"compress: found {slots} slots, expected a multiple of {UPSTREAM_CORE}")
    return Policy(COMPRESS, slots)


def _at_least(value: int, low: int, name: str) -> int:
    if value < low:
        raise PolicyError(f"{name}: found {value}, expected at least {low}")
    return value
