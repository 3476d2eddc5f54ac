"""Which items a lock fixes: how many, by which key, and that no two sets share one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.plan.schema import Plan
from harness.prereg.lock import Bucket, Lock, LockedPartition
from harness.store.digests import digest
from harness.store.errors import ChangedError, UsageError
from harness.store.randomness import derive

LABEL = "items-v1"
BUCKETS: tuple[Bucket, ...] = ("explore", "select", "confirm")


@dataclass(frozen=True)
class DrawnItem:
    """An item as a lock sees it."""

    id: str
    content_digest: str


Draw = Callable[[Plan, str, str, int], Sequence[DrawnItem]]
"""(plan, bucket, key, count) → the items that the key determines."""


def partition_key(plan: Plan, bucket: str, plan_digest: str, nonce: str) -> str:
    """Return the seed of a bucket's draw.

    Confirm items follow from the plan's digest and the freeze nonce, so nobody knows them before;
    the others follow from the plan's own seed, so that they can be looked at while planning.
    """
    parts = (plan_digest, nonce) if bucket == "confirm" else (plan.partitions.seed,)
    return derive(LABEL, bucket, *parts).hex()


def count_of(plan: Plan, bucket: Bucket) -> int:
    """Return how many items are drawn: the stage's own bucket also feeds the spare blocks."""
    if bucket == plan.stage:
        schedule = plan.schedule
        return (schedule.blocks + schedule.spare_blocks) * schedule.block_items
    count: int = getattr(plan.partitions, bucket)
    return count


def draw_partitions(
    plan: Plan, plan_digest: str, nonce: str, draw: Draw
) -> dict[Bucket, LockedPartition]:
    """Return every partition of a plan.

    Raises:
        UsageError: too few items, or an id or a content that appears twice, within or across sets.
    """
    ids: dict[str, str] = {}
    contents: dict[str, str] = {}
    found: dict[Bucket, LockedPartition] = {}
    for bucket in BUCKETS:
        count = count_of(plan, bucket)
        if not count:
            continue
        items = draw(plan, bucket, partition_key(plan, bucket, plan_digest, nonce), count)
        if len(items) != count:
            raise UsageError(f"partitions.{bucket}: found {len(items)} items, expected {count}")
        for item in items:
            _claim(ids, item.id, bucket, f"id {item.id}")
            _claim(contents, item.content_digest, bucket, f"the content of {item.id}")
        found[bucket] = locked_partition(items)
    return found


def locked_partition(items: Sequence[DrawnItem]) -> LockedPartition:
    """Return what a lock keeps of drawn items."""
    pairs = [[item.id, item.content_digest] for item in items]
    return LockedPartition(
        count=len(items), ids=[item.id for item in items], content_digest=digest(pairs)
    )


def _claim(owners: dict[str, str], key: str, bucket: str, what: str) -> None:
    if key in owners:
        raise UsageError(
            f"partitions.{bucket}: {what} is also in {owners[key]}; partitions must be disjoint"
        )
    owners[key] = bucket


def check_drawn(lock: Lock, bucket: Bucket, items: Sequence[DrawnItem]) -> None:
    """Check that items drawn again are the locked ones.

    Raises:
        ChangedError: naming the first item that differs.
    """
    locked = lock.partitions.get(bucket)
    if locked is None:
        raise ChangedError(f"{lock.plan}: partitions.{bucket}: not in the lock")
    if locked == locked_partition(items):
        return
    drawn = [item.id for item in items]
    pairs = enumerate(zip(drawn, locked.ids, strict=False))
    first = next((f"item {n}: found {a}, expected {b}" for n, (a, b) in pairs if a != b), None)
    if first is None and len(drawn) != len(locked.ids):
        first = f"found {len(drawn)} items, expected {len(locked.ids)}"
    raise ChangedError(
        f"{lock.plan}: partitions.{bucket}: {first or 'an item has other content'}; the item "
        "source changed since the freeze"
    )
