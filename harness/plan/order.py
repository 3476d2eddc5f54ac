"""The order table: which arm visits which block when, from which process launch.

Within a block the pair goes palindromically, ABBA or BAAB, half of the blocks each, so that linear
drift cancels within a block and any drift shape common to blocks cancels over them. Other arms
are visited once, between the halves, in the rows of Williams squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from harness.plan.schema import Plan
from harness.store.digests import digest
from harness.store.randomness import Stream


@dataclass(frozen=True)
class Visit:
    """One pass of one arm over one block."""

    block: int
    position: int
    """0, 1, … within the block."""
    arm: str
    visit: int
    """1, 2, … for this arm in this block."""
    launch: int
    """Which start of the arm's process serves it."""


@dataclass(frozen=True)
class Block:
    """A frozen batch: the indices of its items in the drawn partition, and its visits in order."""

    block: int
    spare: bool
    items: tuple[int, ...]
    visits: tuple[Visit, ...]


@dataclass(frozen=True)
class OrderTable:
    """Everything about the order that is fixed before the first measurement."""

    blocks: tuple[Block, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the table's canonical JSON."""
        return digest(asdict(self))

    @property
    def planned(self) -> tuple[Block, ...]:
        """Blocks without the spares."""
        return tuple(block for block in self.blocks if not block.spare)

    @property
    def spares(self) -> tuple[Block, ...]:
        """Spare blocks, in the order in which they may replace interrupted ones."""
        return tuple(block for block in self.blocks if block.spare)


def pair_of(plan: Plan) -> tuple[str, str]:
    """Return the arms that ABBA/BAAB compares: `schedule.pair`, or pristine and the first patched.

    An A/A plan has two pristine arms and no patched one; then the pair is those two.
    """
    if plan.schedule.pair is not None:
        return plan.schedule.pair
    pristine = [name for name, arm in plan.arms.items() if arm.role == "pristine"]
    others = [name for name, arm in plan.arms.items() if arm.role == "patched"] + pristine[1:]
    return pristine[0], (others or pristine)[0]


def order_table(plan: Plan, plan_digest: str, nonce: str) -> OrderTable:
    """Return the order that the plan's digest and the freeze nonce determine."""
    schedule = plan.schedule
    stream = Stream("order-v1", plan_digest, nonce)
    total = schedule.blocks + schedule.spare_blocks
    rows = _rows(plan, total, stream)
    blocks = []
    for index in range(total):
        items = range(index * schedule.block_items, (index + 1) * schedule.block_items)
        spare = index >= schedule.blocks
        last = schedule.launches_per_arm - 1
        launch = last if spare else index * schedule.launches_per_arm // schedule.blocks
        blocks.append(Block(index, spare, tuple(items), _visits(index, rows[index], launch)))
    return OrderTable(tuple(blocks))


def _rows(plan: Plan, total: int, stream: Stream) -> list[list[str]]:
    if plan.schedule.design == "williams":
        return balanced(williams(list(plan.arms)), total, stream)
    first, second = pair_of(plan)
    pairs = balanced([[first, second], [second, first]], total, stream)
    others = [name for name in plan.arms if name not in (first, second)]
    middles = balanced(williams(others), total, stream) if others else [[]] * total
    return [[*pair, *middle, *pair[::-1]] for pair, middle in zip(pairs, middles, strict=True)]


def balanced(rows: Sequence[list[str]], total: int, stream: Stream) -> list[list[str]]:
    """Return `total` rows, each used equally often (but for a remainder), in seeded order.

    Balance holds within consecutive rounds of all rows, so every launch sees each row alike.
    """
    result: list[list[str]] = []
    while len(result) < total:
        result += stream.shuffled(rows)
    return result[:total]


def williams(arms: Sequence[str]) -> list[list[str]]:
    """Return the rows of a Williams design (Williams 1949) for k arms.

    One square for even k, a square and its mirror for odd k: each arm once per row and column,
    each ordered pair of neighbours equally often.
    """
    count = len(arms)
    zigzag = [(step + 1) // 2 if step % 2 else (count - step // 2) % count for step in range(count)]
    square = [[arms[(offset + step) % count] for step in zigzag] for offset in range(count)]
    if count % 2 and count > 1:
        square += [row[::-1] for row in square]
    return square


def _visits(block: int, row: list[str], launch: int) -> tuple[Visit, ...]:
    return tuple(
        Visit(block, position, arm, row[: position + 1].count(arm), launch)
        for position, arm in enumerate(row)
    )
