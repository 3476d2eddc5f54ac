"""What stands outside of the ledger and vouches for it: a saved head, a signature, a git commit.

A chain proves order within itself, but whoever can rewrite all of it can rewrite its head too. An
anchor holds the digest of a record, and so of every record up to it, where the author of the ledger
cannot reach. All of them are checked offline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.ledger.chain import Chain, Head, head_from_json
from harness.ledger.records import History
from harness.store.canonical import canonical, parse
from harness.store.errors import ChangedError, UsageError
from harness.store.files import create, read

Announce = Callable[[str], None]
"""Told of every program that is started."""


@dataclass(frozen=True)
class Anchor:
    """Something that vouches for the first `covers` records of a ledger."""

    by: str
    covers: int


@dataclass
class Anchors:
    """What was found for one ledger, and what could not be checked and why."""

    found: list[Anchor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Standing:
    """Whether a plan is anchored, in words for the verdict line."""

    anchored: bool
    text: str


def save_head(path: Path, study: str, head: Head) -> None:
    """Write a ledger's head into a file to be kept elsewhere.

    Raises:
        UsageError: the file exists.
    """
    try:
        create(path, canonical({"format": 1, "study": study, **head.json()}) + b"\n")
    except FileExistsError as error:
        raise UsageError(f"{path}: exists; a saved head is never overwritten") from error


def read_saved(path: Path) -> tuple[str, Head]:
    """Return the study and the head in a file that `save_head` wrote.

    Raises:
        IncompleteError: missing. UsageError: not a saved head.
    """
    try:
        value = parse(read(path))
    except ValueError as error:
        raise _no_head(path) from error
    if not isinstance(value, dict) or set(value) != {"format", "study", "count", "digest"}:
        raise _no_head(path)
    try:
        head = head_from_json({key: value[key] for key in ("count", "digest")}, str(path))
    except ChangedError as error:
        raise _no_head(path) from error
    return str(value["study"]), head


def _no_head(path: Path) -> UsageError:
    return UsageError(f"{path}: not a saved head; `harness ledger anchor --save FILE` writes one")


def check_saved(chain: Chain, seen: History, head: Head, name: str) -> Anchor:
    """Return a saved head as an anchor.

    Raises:
        ChangedError: the ledger is not the one whose head was saved.
    """
    chain.check_head([entry.record for entry in seen.entries], head, name)
    return Anchor(f"the head saved in {name}", head.count)


def standing(seen: History, plan: str, anchors: Anchors) -> Standing:
    """Return whether the lock of a plan is anchored, and whether that was before its results."""
    frozen = seen.frozen(plan)
    if frozen is None:
        return Standing(False, "unanchored; not in the ledger")
    covering = [one for one in anchors.found if one.covers >= frozen[0].n]
    result = first_result(seen, plan)
    early = [one for one in covering if result is None or one.covers < result]
    if early:
        best = min(early, key=lambda one: one.covers)
        return Standing(True, f"anchored by {best.by} at record {best.covers}, before the results")
    late = [one for one in covering if not one.by.startswith("git")]
    if late:
        best = min(late, key=lambda one: one.covers)
        text = f"anchored by {best.by} at record {best.covers}, after the results: it shows later"
        return Standing(True, f"{text} changes, not which came first")
    notes = list(anchors.notes)
    if covering:
        notes.append(
            f"no evidence of order from git: plan and results first appear in one commit "
            f"({covering[0].by})"
        )
    return Standing(False, "; ".join(["unanchored", *notes]))


def first_result(seen: History, plan: str) -> int | None:
    """Return the first record that tells of a plan's data: its run's start is not yet one."""
    kinds = ("run.sealed", "verdicts", "result.opened")
    mine: Sequence[int] = [
        entry.record.n
        for entry in seen.entries
        if entry.body.plan == plan and entry.record.kind in kinds
    ]
    return mine[0] if mine else None
