"""Confirm items are used once: what was opened under one lock never serves another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from harness.ledger.records import History, PlanFrozen
from harness.prereg.lock import Bucket, LockedPartition, read_lock
from harness.store.errors import HarnessError, RefusedError
from harness.store.paths import Project
from harness.store.randomness import nonce as fresh_nonce

TRIES = 50

Partitions = dict[Bucket, LockedPartition]


def opened_items(project: Project, histories: Iterable[History]) -> dict[str, str]:
    """Return confirm item → the plan under whose lock its results were opened.

    An item's id holds the digest of its content, so that the same content has the same id.

    Raises:
        RefusedError: the lock of such a plan cannot be read.
    """
    found: dict[str, str] = {}
    for seen in histories:
        for _, frozen in seen.of(PlanFrozen):
            if seen.access(frozen.plan) != "results_opened":
                continue
            try:
                partition = read_lock(project, frozen.plan).partitions.get("confirm")
            except HarnessError as error:
                raise RefusedError(
                    f"{error}; without it nobody can tell which confirm items were opened"
                ) from error
            for item in partition.ids if partition else []:
                found.setdefault(item, frozen.plan)
    return found


def scored_items(project: Project, histories: Iterable[History]) -> dict[str, set[str]]:
    """Return plan → the items that its lock scores; locks that cannot be read are left out."""
    found: dict[str, set[str]] = {}
    for seen in histories:
        for _, frozen in seen.of(PlanFrozen):
            with contextlib.suppress(HarnessError):
                lock = read_lock(project, frozen.plan)
                partition = lock.partitions.get(lock.stage)
                found[frozen.plan] = set(partition.ids) if partition else set()
    return found


def draw_unopened(
    plan: str, opened: dict[str, str], draw: Callable[[str], Partitions]
) -> tuple[str, Partitions]:
    """Return a fresh nonce and its partitions, without an item that was opened before.

    Raises:
        RefusedError: the source is too small to give unopened items only.
    """
    for _ in range(TRIES):
        nonce = fresh_nonce()
        partitions = draw(nonce)
        confirm = partitions.get("confirm")
        spent = sorted(set(confirm.ids if confirm else []) & opened.keys())
        if not spent:
            return nonce, partitions
    raise RefusedError(
        f"{plan}: {len(spent)} of its confirm items were opened before, among them {spent[0]} "
        f"under {opened[spent[0]]}; a result that was seen cannot confirm, so take another item "
        "source or larger options"
    )
