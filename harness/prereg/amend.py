"""Making an amendment or recording a deviation: append only, with the reason and what was seen."""

from __future__ import annotations

from harness.ledger.chain import Chain
from harness.ledger.records import (
    History,
    PlanAmended,
    RunAbandoned,
    RunDeviated,
    append,
    history,
)
from harness.plan.compose import Composed
from harness.plan.digest import plan_digest, plan_json
from harness.plan.resolve import resolve
from harness.plan.schema import Plan
from harness.prereg.amendments import (
    AMENDABLE,
    Amended,
    Amendment,
    accepted_conf,
    amendments,
    differing,
    path_of,
)
from harness.prereg.interpolations import refuse_interpolations
from harness.prereg.lock import FileEntry, Lock, lock_digest, read_lock
from harness.prereg.tables import table_of
from harness.prereg.turning import check_turning
from harness.store.clock import CLOCK, Clock
from harness.store.digests import sha256_bytes
from harness.store.errors import IncompleteError, RefusedError, UsageError
from harness.store.files import create
from harness.store.paths import Project


def amend(project: Project, composed: Composed, reason: str, clock: Clock = CLOCK) -> Amended:
    """Record that a frozen plan is from now on what its file says.

    Raises:
        UsageError: no reason, nothing changed, or a rule that cannot turn. RefusedError: not
        frozen, a broken ledger, or a change of what is measured.
    """
    name = composed.plan.plan
    lock, chain, seen = _frozen(project, name)
    refuse_interpolations(project, composed.sources)
    earlier = amendments(project, name, seen)
    before = earlier[-1].content.plan_json if earlier else lock.plan_json
    plan = _resolved(composed.plan, lock)
    changes = differing(before, plan_json(plan))
    for change in changes:
        if change.key.split(".")[0] not in AMENDABLE:
            raise RefusedError(
                f"conf/{name}.yaml: {change.key}: decides what is measured, so it can't be amended "
                f"(only {', '.join(AMENDABLE)} can); put it into a plan of its own, which "
                f"`harness freeze` counts as a further attempt on {lock.question}"
            )
    table = table_of(project, composed.sources)
    if not changes and table == accepted_conf(project, lock, seen):
        raise UsageError(f"conf/{name}.yaml: nothing changed; edit the plan first, then amend it")
    check_turning(plan, lock.attempt)
    content = Amendment(
        plan=name,
        number=len(earlier) + 1,
        reason=checked_reason(reason),
        amended_utc=clock.utc(),
        access=seen.access(name),
        lock_digest=lock_digest(project, name),
        plan_json=plan_json(plan),
        plan_digest=plan_digest(plan),
        changes=changes,
        conf={key: FileEntry(**entry) for key, entry in table.items()},
    )
    return _publish(project, chain, content, clock)


def checked_reason(reason: str) -> str:
    """Return a reason of at least one word.

    Raises:
        UsageError: empty.
    """
    text = reason.strip()
    if not text:
        raise UsageError("--reason: empty; say why, it is shown with every verdict")
    return text


def _frozen(project: Project, name: str) -> tuple[Lock, Chain, History]:
    try:
        lock = read_lock(project, name)
    except IncompleteError as error:
        raise RefusedError(
            f"{project.relative(project.lock(name))}: missing; only a frozen plan can be amended"
        ) from error
    chain = Chain(project.ledger(lock.study))
    seen = history(chain.intact())
    frozen = seen.frozen(name)
    if frozen is None or frozen[1].lock_digest != lock_digest(project, name):
        raise RefusedError(f"{name}: lock and ledger disagree; see `harness verify`")
    return lock, chain, seen


def _resolved(plan: Plan, lock: Lock) -> Plan:
    chosen = lock.selection.chosen if lock.selection else None
    return resolve(plan, chosen) if plan.selection and chosen else plan


def _publish(project: Project, chain: Chain, content: Amendment, clock: Clock) -> Amended:
    path = path_of(project, content.plan, content.number)
    try:
        create(path, content.data())
    except FileExistsError as error:
        raise RefusedError(
            f"{project.relative(path)}: there already, but not in the ledger; remove it"
        ) from error
    body = PlanAmended(
        plan=content.plan,
        number=content.number,
        reason=content.reason,
        access=content.access,
        file_digest=sha256_bytes(content.data()),
    )

    def guard(seen: History) -> None:
        if seen.access(content.plan) != content.access:
            path.unlink(missing_ok=True)
            raise RefusedError(f"{content.plan}: a run went on meanwhile; amend again")

    record = append(chain, body, clock, guard=guard)
    return Amended(record.n, record.at, content)


def deviate(
    project: Project, plan: str, run_id: str, reason: str, *, abandon: bool, clock: Clock = CLOCK
) -> RunDeviated | RunAbandoned:
    """Record that a run departed from its plan, or that it is given up.

    Raises:
        RefusedError: the ledger does not know the run, it is broken, or it was given up before.
    """
    lock, chain, seen = _frozen(project, plan)
    body: RunDeviated | RunAbandoned
    text = checked_reason(reason)
    if abandon:
        body = RunAbandoned(plan=plan, run_id=run_id, reason=text)
    else:
        body = RunDeviated(plan=plan, run_id=run_id, reason=text, access=seen.access(plan))

    def guard(now: History) -> None:
        if not now.started(plan, run_id):
            raise RefusedError(f"{plan}: ledger {lock.study} knows no run {run_id}")
        if abandon and now.abandoned(plan, run_id):
            raise RefusedError(f"{plan}: {run_id} was abandoned before")
        if abandon and now.sealed(plan, run_id):
            raise RefusedError(f"{plan}: {run_id} is sealed, so its verdicts stand")

    append(chain, body, clock, guard=guard)
    return body
