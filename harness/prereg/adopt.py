"""Taking a finished replication into the ledger. The registered verdicts stay what they are."""

from __future__ import annotations

from harness.ledger.chain import Chain
from harness.ledger.records import History, RunAdopted, append, history
from harness.prereg.lock import read_lock
from harness.prereg.runs import check_replication
from harness.store.clock import CLOCK, Clock
from harness.store.errors import ChangedError, Exit, IncompleteError, RefusedError
from harness.store.paths import Project


def adopt(project: Project, plan: str, run_id: str, clock: Clock = CLOCK) -> RunAdopted:
    """Record a replication with the head of its own chain and its seal.

    Raises:
        RefusedError: it is the registered run, is no replication, or was adopted before.
        IncompleteError: it is not sealed. ChangedError: it does not verify.
    """
    lock = read_lock(project, plan)
    chain = Chain(project.ledger(lock.study))
    seen = history(chain.intact())
    if seen.started(plan, run_id) is not None:
        raise RefusedError(f"{plan}: {run_id} is in the ledger already, as the registered run")
    own = Chain(project.run(plan, run_id).chain)
    if not own.folder.is_dir():
        raise RefusedError(f"{plan}: {run_id} keeps no chain, so it is no replication of a lock")
    for finding in check_replication(project, plan, run_id, lock, seen):
        if not finding.remark:
            broken = IncompleteError if finding.code == Exit.INCOMPLETE else ChangedError
            raise broken(f"{finding.message}; not adopted")
    mine = history(own)
    sealed = mine.sealed(plan, run_id)
    if sealed is None:
        raise IncompleteError(f"{plan}: {run_id} is not sealed; `harness run conf={plan}` first")
    head = own.head
    body = RunAdopted(
        plan=plan,
        run_id=run_id,
        role="replication",
        seal_digest=sealed[1].seal_digest,
        chain_count=head.count,
        chain_digest=head.digest,
    )

    def guard(now: History) -> None:
        if now.adopted(plan, run_id):
            raise RefusedError(f"{plan}: {run_id} was adopted before")

    append(chain, body, clock, guard=guard)
    return body
