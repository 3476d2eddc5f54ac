"""The sealed select run that a selection rests on, verified before anything is read from it."""

from __future__ import annotations

from collections.abc import Callable

from harness.ledger.records import History
from harness.plan.resolve import is_resolved, resolve
from harness.plan.schema import Plan
from harness.prereg.lock import Lock, Parents, Selected, lock_digest, read_lock
from harness.prereg.runs import check_run
from harness.prereg.selection import ArmFigures, check_candidates, rank, winner
from harness.prereg.verify import verify_lock
from harness.store.errors import (
    ChangedError,
    Exit,
    HarnessError,
    IncompleteError,
    RefusedError,
    UsageError,
)
from harness.store.paths import Project, RunPaths

FiguresOf = Callable[[Lock, RunPaths], ArmFigures]
"""(lock of the select plan, its sealed run) → every arm's figures."""


def apply_selection(
    project: Project, plan: Plan, seen: History, figures_of: FiguresOf | None
) -> tuple[Plan, Selected | None, Parents | None]:
    """Return the plan with its rule applied, the choice with its figures, and what it rests on.

    Raises:
        IncompleteError: the select plan has no sealed registered run. ChangedError: it does not
        verify. RefusedError: abandoned, other options than measured, or no admissible candidate.
    """
    if plan.selection is None:
        return plan, None, None
    if is_resolved(plan):
        raise UsageError(
            f"conf/{plan.plan}.yaml: selection.chosen: found {plan.selection.chosen}; the rule "
            "chooses, so remove the key"
        )
    source = plan.selection.source
    lock, run, seal_digest = _select_run(project, source, plan.study, seen)
    check_candidates(plan, lock.typed_plan())
    if figures_of is None:
        raise UsageError(
            f"conf/{plan.plan}.yaml: selection: nothing given to measure {source} with"
        )
    figures = rank(plan.selection, figures_of(lock, run))
    chosen = winner(plan.plan, figures)
    selected = Selected(
        source_plan=source,
        run_id=run.root.name,
        seal_digest=seal_digest,
        rule=plan.selection.rule.model_dump(mode="json", exclude_none=True),
        figures=list(figures),
        chosen=chosen,
    )
    parents = Parents(
        select_lock_digest=lock_digest(project, source), select_seal_digest=seal_digest
    )
    return resolve(plan, chosen), selected, parents


def _select_run(
    project: Project, source: str, study: str, seen: History
) -> tuple[Lock, RunPaths, str]:
    """Return the lock, the folder and the seal's digest of a select plan's registered run."""
    start = seen.registered(source)
    if start is None:
        raise IncompleteError(
            f"{source}: has no registered run in ledger {study}; run `harness run conf={source}`"
        )
    run_id = start[1].run_id
    if seen.abandoned(source, run_id):
        raise RefusedError(
            f"{source}: its registered run {run_id} was abandoned; nothing to select"
        )
    sealed = seen.sealed(source, run_id)
    if sealed is None:
        raise IncompleteError(
            f"{source}: its registered run {run_id} is not sealed; run `harness run conf={source}`"
        )
    lock = read_lock(project, source)
    if lock.stage != "select":
        raise UsageError(f"{source}: stage {lock.stage}; a selection reads a plan of stage select")
    found = verify_lock(project, source, "replication")
    found += check_run(project, source, run_id, seen, lock)
    broken = [finding for finding in found if finding.code != Exit.DONE]
    if broken:
        raise _as_error(broken[0].code, broken[0].message)
    return lock, project.run(source, run_id), sealed[1].seal_digest


def _as_error(code: Exit, message: str) -> HarnessError:
    kinds: dict[Exit, type[HarnessError]] = {Exit.INCOMPLETE: IncompleteError}
    return kinds.get(code, ChangedError)(message)
