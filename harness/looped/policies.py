"""Cache policies: which plane a query reads for a key, as a pure function."""

from __future__ import annotations

from dataclasses import dataclass

from harness.looped.errors import PolicyError

FULL = "full"
RIPE = "ripe"
FIRST = "first_loops"
LAST = "last_loops"


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule for reading core planes; `number` is the window or the count of planes kept."""

    kind: str
    number: int = 0

    @property
    def label(self) -> str:
        """A short name, such as `full`, `deepest` or `ripe(16)`."""
        if self.kind == FULL:
            return FULL
        return "deepest" if self == deepest() else f"{self.kind}({self.number})"

    @property
    def longest_pass(self) -> int | None:
        """Most tokens that one pass may hold, or None for any number.

        A longer pass would have to read planes of its own tokens that do not exist yet.
        """
        return {FULL: None, RIPE: self.number + 1, FIRST: None, LAST: 1}[self.kind]

    def plane(self, *, query: int, loop: int, key: int, loops: int, prompt: int = 0) -> int:
        """The plane (1..loops) that `query` reads for `key` in loop `loop`.

        query and key are absolute positions. Queries below `prompt` read their own planes, as
        the `full_prompt` prefill does; `exact` has prompt = 0.
        """
        if not (0 <= key <= query and 1 <= loop <= loops):
            raise PolicyError(
                f"plane: found query {query}, key {key}, loop {loop} of {loops}; "
                "expected 0 <= key <= query and 1 <= loop <= loops"
            )
        window = self.near_window
        if window is None or query < prompt or query - key <= window:
            return loop
        return self.far_plane(loop, loops)

    @property
    def near_window(self) -> int | None:
        """How many earlier positions are read in the loop's own plane; None means all."""
        return {FULL: None, RIPE: self.number, FIRST: 0, LAST: 0}[self.kind]

    def far_plane(self, loop: int, loops: int) -> int:
        """The plane read in `loop` for positions before the window."""
        if self.kind == RIPE:
            return loops
        if self.kind == FIRST:
            return min(loop, self.number)
        return max(loop, loops - self.number + 1)


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


def _at_least(value: int, low: int, name: str) -> int:
    if value < low:
        raise PolicyError(f"{name}: found {value}, expected at least {low}")
    return value
