"""What passes cost, in units of one core loop over one token, and what drafts gain.

A pass of l loops costs f + l, where f is what prelude, coda and head cost beside a core loop. A
round of speculation makes gamma draft passes of d loops, then verifies; a verification costs eta
times what a pass of one token costs (eta is near 1 where passes wait for memory or launches, and up
to gamma + 1 where they wait for arithmetic). Source for the shape of the model: Leviathan et al.,
arXiv 2211.17192, with the loop as the unit. All numbers here are estimates until measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.looped.config import LoopedConfig
from harness.looped.errors import LoopedError
from harness.looped.names import ADAPTER, EMBEDDING, HEAD, expected_shapes


@dataclass(frozen=True, slots=True)
class PassCost:
    """Prelude, and coda with head, each in units of one core loop with its adapter."""

    prelude: float
    rest: float

    @property
    def outer(self) -> float:
        """f: all that is not a loop."""
        return self.prelude + self.rest


def pass_cost(config: LoopedConfig) -> PassCost:
    """By parameters, which is what a pass that waits for memory reads."""
    sizes: dict[str, int] = {}
    for name, shape in expected_shapes(config).items():
        count = 1
        for side in shape:
            count *= side
        sizes[name] = count
    groups = {
        group: sum(size for name, size in sizes.items() if f".{group}." in name)
        for group in ("prelude", "core_block", "coda")
    }
    loop = groups["core_block"] + sizes.get(ADAPTER, 0)
    head = sizes[EMBEDDING if config.tied else HEAD]
    return PassCost(groups["prelude"] / loop, (groups["coda"] + head) / loop)


def tokens_per_round(acceptance: Sequence[float]) -> float:
    """tau: expected tokens of a round with conditional acceptance rates by place, bonus included.

    1 + a1 + a1 * a2 + …
    """
    if not all(0 <= rate <= 1 for rate in acceptance):
        raise LoopedError(f"acceptance: found {list(acceptance)}, expected rates in 0..1")
    total, chain = 1.0, 1.0
    for rate in acceptance:
        chain *= rate
        total += chain
    return total


@dataclass(frozen=True, slots=True)
class Round:
    """A round of speculation: drafts of `draft_loops` loops, `loops` in all, verified together.

    `widening` is eta, the cost of a pass over all drafts and the pending token in passes of one.
    """

    loops: int
    draft_loops: int
    draft_tokens: int
    widening: float

    def plain(self, cost: PassCost) -> float:
        """Cost of a round that throws the drafts' states away."""
        drafts = self.draft_tokens * (self.draft_loops + cost.outer)
        return drafts + self.widening * (self.loops + cost.outer)

    def reusing(self, cost: PassCost) -> float:
        """Cost of a round that goes on from the drafts' states.

        The verification runs the loops after the drafts' only, and no prelude; but the last draft,
        which no draft pass has read, needs a catch-up pass of its own: prelude and draft loops.
        """
        drafts = self.draft_tokens * (self.draft_loops + cost.outer)
        catch_up = cost.prelude + self.draft_loops
        return drafts + catch_up + self.widening * (self.loops - self.draft_loops + cost.rest)

    def reuse_gain(self, cost: PassCost) -> float:
        """What reuse saves in a round: (eta - 1) * (prelude + draft loops).

        Nothing where a wide pass costs what a narrow one does; most where arithmetic decides. It
        also binds the drafts to what the policy reads, which may cost acceptance.
        """
        return self.plain(cost) - self.reusing(cost)

    def speed_up(
        self, cost: PassCost, acceptance: Sequence[float], *, reuse: bool = False
    ) -> float:
        """Tokens for the cost of a round, against one sequential pass a token."""
        spent = self.reusing(cost) if reuse else self.plain(cost)
        return tokens_per_round(acceptance) * (self.loops + cost.outer) / spent
