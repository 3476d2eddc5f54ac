"""`harness ledger anchor`, and the anchor options of `verify` and `report`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import console, note, print_json
from harness.store.errors import ChangedError, IncompleteError, UsageError

if TYPE_CHECKING:
    from harness.ledger.anchors import Anchors, Standing
    from harness.ledger.chain import Head
    from harness.store.paths import Project


def add_options(made: argparse.ArgumentParser) -> None:
    """Add the options that say what vouches for a ledger."""
    made.add_argument(
        "--anchor",
        metavar="FILE",
        action="append",
        default=[],
        help="a head saved by `harness ledger anchor --save`",
    )
    made.add_argument("--signers", metavar="FILE", help="allowed signers of heads, as ssh has them")
    made.add_argument(
        "--require-anchor",
        action="store_true",
        help="look for anchors in git and signatures too, and exit 7 without one",
    )


@dataclass(frozen=True)
class Wanted:
    """What a command was told about anchors."""

    files: tuple[str, ...]
    signers: Path | None
    programs: bool
    """Whether git and ssh-keygen may be started to look."""

    @property
    def any(self) -> bool:
        """Whether anchors are to be looked at at all."""
        return bool(self.files) or self.programs


def wanted(args: argparse.Namespace) -> Wanted:
    """Return what the options ask for."""
    signers = Path(args.signers) if args.signers else None
    programs = bool(args.require_anchor or signers)
    return Wanted(tuple(args.anchor), signers, programs)


def saved_heads(asked: Wanted) -> dict[str, tuple[Head, str]]:
    """Return the heads that were saved elsewhere, by study, with the name of their file.

    Raises:
        UsageError: a file that is no saved head, or two that disagree about one place.
    """
    from harness.ledger.anchors import read_saved

    heads: dict[str, tuple[Head, str]] = {}
    for name in asked.files:
        study, head = read_saved(Path(name))
        known = heads.get(study)
        if known and known[0].count == head.count and known[0].digest != head.digest:
            raise UsageError(f"--anchor {name}: says another head than {known[1]}")
        if known is None or head.count > known[0].count:
            heads[study] = (head, Path(name).name)
    return heads


def standings(project: Project, study: str, asked: Wanted) -> dict[str, Standing]:
    """Return, for every frozen plan of a study, whether and by whom it is anchored.

    Raises:
        ChangedError: an anchor vouches for another history than this ledger's.
    """
    from harness.ledger.anchors import standing
    from harness.ledger.chain import Chain
    from harness.ledger.records import PlanFrozen, history

    chain = Chain(project.ledger(study))
    seen = history(chain.verify())
    found = _anchors(project, study, asked)
    return {body.plan: standing(seen, body.plan, found) for _, body in seen.of(PlanFrozen)}


def _anchors(project: Project, study: str, asked: Wanted) -> Anchors:
    from harness.ledger.anchors import Anchors, check_saved, read_saved
    from harness.ledger.chain import Chain
    from harness.ledger.git_anchors import git_anchors
    from harness.ledger.records import history
    from harness.ledger.signatures import signature_anchors

    chain = Chain(project.ledger(study))
    seen = history(chain)
    result = Anchors()
    for name in asked.files:
        of, head = read_saved(Path(name))
        if of == study:
            result.found.append(check_saved(chain, seen, head, Path(name).name))
    if asked.programs:
        announce = _Announcer()
        signed = signature_anchors(project.anchors(study), chain, seen, asked.signers, announce)
        git = git_anchors(project.root, chain, announce)
        for one in (signed, git):
            result.found += one.found
            result.notes += one.notes
        _check_commits(project, study, announce)
    return result


def _check_commits(project: Project, study: str, announce: _Announcer) -> None:
    """The commit that a clean lock names must hold the plan's own files, where it is here."""
    from harness.ledger.chain import Chain
    from harness.ledger.git_anchors import holds
    from harness.ledger.records import PlanFrozen, history
    from harness.prereg.lock import read_lock
    from harness.prereg.tables import locate
    from harness.store.files import read

    for _, body in history(Chain(project.ledger(study))).of(PlanFrozen):
        lock = read_lock(project, body.plan)
        if lock.git is None or lock.git.dirty or body.plan in _amended(project, study):
            continue
        for name in lock.files.conf:
            path = locate(project, name)
            if name.startswith("conf/") and path.is_relative_to(project.root):
                said = holds(project.root, lock.git.commit, name, read(path), announce)
                if said is False:
                    raise ChangedError(
                        f"{project.relative(project.lock(body.plan))}: git.commit: "
                        f"{lock.git.commit[:12]} does not hold {name} as it was frozen"
                    )


def _amended(project: Project, study: str) -> set[str]:
    from harness.ledger.chain import Chain
    from harness.ledger.records import PlanAmended, history

    return {body.plan for _, body in history(Chain(project.ledger(study))).of(PlanAmended)}


class _Announcer:
    """Prints each kind of program once, before it starts."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, program: str) -> None:
        kind = program.split()[0]
        if kind not in self._told:
            self._told.add(kind)
            note(f"  starts {program} …")


def main(project: Project, study: str, args: argparse.Namespace) -> int:
    """Save or sign a ledger's head, or show what vouches for it now."""
    from harness.ledger.anchors import save_head
    from harness.ledger.chain import Chain, head_of
    from harness.ledger.signatures import sign_head

    chain = Chain(project.ledger(study))
    head = head_of(chain.verify())
    if not head.count:
        raise IncompleteError(f"ledgers/{study}: no such ledger")
    out = console()
    out.print(f"ledger {study}: {head.count} records, head {head.digest}", markup=False)
    if args.save:
        save_head(Path(args.save), study, head)
        out.print(f"saved: {args.save}; keep it where nobody rewrites it", markup=False)
    if args.sign:
        signature = sign_head(project.anchors(study), study, head, Path(args.sign), _Announcer())
        out.print(f"signed: {project.relative(signature)}", markup=False)
    if args.save or args.sign:
        return 0
    signers = Path(args.signers) if args.signers else None
    found = standings(project, study, Wanted(tuple(args.anchor), signers, programs=True))
    if args.json:
        print_json({plan: {"anchored": s.anchored, "text": s.text} for plan, s in found.items()})
        return 0
    for plan, one in found.items():
        out.print(f"  {plan}: {one.text}", markup=False)
    return 0
