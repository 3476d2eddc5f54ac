"""Which run this is: registered, a replication, or unregistered; started, resumed or done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.ledger.chain import Chain
from harness.ledger.records import History, RunStarted, append, history, start_registered
from harness.plan.compose import compose
from harness.plan.digest import plan_digest
from harness.plan.order import OrderTable, order_table
from harness.plan.schema import Plan
from harness.plan.words import Words
from harness.prereg.environment import device_class
from harness.prereg.findings import Finding
from harness.prereg.lock import Lock, lock_digest, read_lock
from harness.prereg.verify import verify_lock
from harness.run.context import Role
from harness.run.folder import create_run, unfinished
from harness.store.errors import (
    ChangedError,
    Exit,
    HarnessError,
    IncompleteError,
    RefusedError,
    worst,
)
from harness.store.files import read_json
from harness.store.paths import Project, RunPaths
from harness.store.randomness import nonce as fresh_nonce

LockedRole = Literal["registered", "replication"]


@dataclass(frozen=True)
class Campaign:
    """A run about to be driven, with what it rests on."""

    project: Project
    plan: Plan
    order: OrderTable
    nonce: str
    paths: RunPaths
    role: Role
    lock: Lock | None
    resumed: bool
    remarks: tuple[str, ...]
    """What differs from the lock without forbidding the run."""

    @property
    def attempt(self) -> int:
        """Which lock on its question this is."""
        return self.lock.attempt if self.lock else 1

    @property
    def chain(self) -> Chain | None:
        """Where this run is recorded: the ledger, a chain of its own, or nowhere."""
        if self.role == "registered":
            return Chain(self.project.ledger(self.plan.study))
        return Chain(self.paths.chain) if self.role == "replication" else None


def enlist(project: Project, words: Words) -> Campaign:
    """Check the lock where the stage needs one, and create or find the run.

    Raises:
        IncompleteError: not frozen. ChangedError: something locked differs. RefusedError: overrides
            of a frozen plan.
    """
    plan = compose(project, words.plan).plan
    if plan.stage == "explore":
        return _unregistered(project, compose(project, words.plan, words.overrides).plan)
    if words.overrides:
        raise RefusedError(
            f"{plan.plan}: is a {plan.stage} plan and takes no overrides "
            f"({', '.join(words.overrides)}); a variant is a plan of its own"
        )
    return _registered_or_replication(project, plan.plan)


def _unregistered(project: Project, plan: Plan) -> Campaign:
    paths = unfinished(project, plan, judged=True)
    resumed = paths is not None
    if paths is None:
        paths = create_run(
            project, plan, role="unregistered", nonce=fresh_nonce(), lock_digest=None
        )
    return _campaign(project, plan, paths, None, resumed, ())


def _campaign(
    project: Project,
    plan: Plan,
    paths: RunPaths,
    lock: Lock | None,
    resumed: bool,
    remarks: tuple[str, ...],
) -> Campaign:
    manifest = read_json(paths.manifest)
    nonce, role = str(manifest["nonce"]), manifest["role"]
    order = order_table(plan, plan_digest(plan), nonce)
    if role == "registered":
        return Campaign(project, plan, order, nonce, paths, "registered", lock, resumed, remarks)
    kind: Role = "replication" if role == "replication" else "unregistered"
    return Campaign(project, plan, order, nonce, paths, kind, lock, resumed, remarks)


def _registered_or_replication(project: Project, name: str) -> Campaign:
    try:
        lock = read_lock(project, name)
    except IncompleteError as error:
        raise IncompleteError(
            f"{project.relative(project.lock(name))}: missing; first `harness freeze conf={name}`"
        ) from error
    chain = Chain(project.ledger(lock.study))
    seen = history(chain.verify())
    role = _role(project, name, seen)
    device = device_class(lock.typed_plan().model.device)
    remarks = _checked(verify_lock(project, name, role, device_class=device))
    digest = lock_digest(project, name)
    plan = lock.typed_plan()
    paths = _resumable(project, plan, role)
    resumed = paths is not None
    if paths is None:
        paths = create_run(
            project,
            plan,
            role=role,
            nonce=lock.nonce,
            lock_digest=digest,
            lock_differences=remarks,
        )
    _record_start(project, lock, paths, role, digest, seen)
    return _campaign(project, plan, paths, lock, resumed, remarks)


def _role(project: Project, name: str, seen: History) -> LockedRole:
    """The registered run stays so until it is sealed and judged; what comes later replicates it."""
    start = seen.registered(name)
    if start is None:
        return "registered"
    run_id = start[1].run_id
    if seen.abandoned(name, run_id):
        return "replication"
    done = seen.sealed(name, run_id) and seen.verdicts(name, run_id)
    if not done and not project.run(name, run_id).manifest.is_file():
        raise IncompleteError(
            f"runs/{name}/{run_id}: missing, but the ledger holds its start; restore it, or record "
            f"with `harness deviate` why it is lost"
        )
    return "replication" if done else "registered"


def _resumable(project: Project, plan: Plan, role: Role) -> RunPaths | None:
    if role == "registered":
        seen = history(Chain(project.ledger(plan.study)))
        start = seen.registered(plan.plan)
        if start is not None:
            return project.run(plan.plan, start[1].run_id)
    paths = unfinished(project, plan, judged=True)
    if paths is not None and read_json(paths.manifest)["role"] == role:
        return paths
    return None


def _record_start(
    project: Project, lock: Lock, paths: RunPaths, role: LockedRole, digest: str, seen: History
) -> None:
    body = RunStarted(plan=lock.plan, run_id=paths.root.name, role=role, lock_digest=digest)
    if role == "registered" and seen.registered(lock.plan) is None:
        start_registered(Chain(project.ledger(lock.study)), body)
    if role == "replication" and not history(Chain(paths.chain)).entries:
        append(Chain(paths.chain), body)


def _checked(findings: list[Finding]) -> tuple[str, ...]:
    """Return the remarks; raise the worst of the rest."""
    strict = [finding for finding in findings if finding.code != Exit.DONE]
    if strict:
        code = worst([finding.code for finding in strict])
        first = next(finding for finding in strict if finding.code == code)
        more = f" (and {len(strict) - 1} more; see `harness verify`)" if len(strict) > 1 else ""
        raise _error(code)(f"{first.message}{more}; nothing was started")
    return tuple(finding.message for finding in findings)


def _error(code: Exit) -> type[HarnessError]:
    return {Exit.INCOMPLETE: IncompleteError}.get(code, ChangedError)
