"""What the ledger says about a run today: attempts, amendments, deviations, clocks and anchors.

The analysis is a function of the sealed records and stays as it is; this is what is shown with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.store.errors import Exit, HarnessError, worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.ledger.chain import Head
    from harness.ledger.records import History
    from harness.plan.schema import Plan
    from harness.prereg.amendments import Amended
    from harness.prereg.lock import Lock
    from harness.store.canonical import Json
    from harness.store.paths import Project, RunPaths


def shown(
    project: Project, study: str, paths: RunPaths, analysis: Json, anchor: str | None = None
) -> Json:
    """Return an analysis with what the ledger adds to it; `exit_code` is set where it deviates."""
    from harness.ledger.chain import Chain
    from harness.ledger.records import history

    chain = Chain(project.ledger(study))
    result = {
        **analysis,
        "attempts": int(analysis["attempt"]),
        "verdicts": [{**one, "reasons": list(one["reasons"])} for one in analysis["verdicts"]],
        "scope": {**analysis["scope"], "anchored": anchor or False},
        "threats": list(analysis["threats"]),
    }
    if not chain.folder.is_dir():
        return result
    seen = history(chain)
    locks = len(seen.locks_of(analysis["question"]))
    result["attempts"] = max(locks, result["attempts"])
    sentences = _deviations(seen, analysis["plan"], paths.root.name)
    for one in result["verdicts"]:
        one["reasons"] = [*sentences, *one["reasons"]]
    late = _late(project, analysis["plan"], seen)
    for amended in late:
        sentences += _amended(project, paths, amended, result)
    result["threats"] += [*sentences, *_clock(seen)]
    if sentences:
        result["exit_code"] = int(Exit.DEVIATED)
    return result


def _deviations(seen: History, plan: str, run_id: str) -> list[str]:
    from harness.ledger.records import LedgerRepaired, RunDeviated

    found = [
        f"DEVIATED: {body.reason} (ledger record {record.n}, {record.at})"
        for record, body in seen.of(RunDeviated, plan)
        if body.run_id == run_id
    ]
    return found + [
        f"DEVIATED: a torn ledger record was set aside (record {record.n}): {body.reason}"
        for record, body in seen.of(LedgerRepaired)
    ]


def _late(project: Project, plan: str, seen: History) -> list[tuple[Lock, Amended]]:
    """Return the amendments that came too late to replace a rule."""
    from harness.prereg.amendments import amendments
    from harness.prereg.lock import read_lock

    if seen.frozen(plan) is None:
        return []
    lock = read_lock(project, plan)
    return [(lock, one) for one in amendments(project, plan, seen) if not one.clean]


def _amended(
    project: Project, paths: RunPaths, late: tuple[Lock, Amended], result: Json
) -> list[str]:
    """Mark every prediction that a late amendment touched, with the word that it would give."""
    from harness.plan.digest import plan_from_json
    from harness.prereg.amendments import sentence

    lock, amended = late
    words = _words(project, paths, plan_from_json(amended.content.plan_json))
    rows = {one["id"]: one for one in result["verdicts"]}
    found = []
    for change in amended.affected:
        name = change.key.partition(".")[2]
        text = f"{sentence(lock, amended, change)}; by the amended rule: {words.get(name, 'none')}"
        found.append(text)
        if name in rows:
            rows[name]["reasons"].insert(0, text)
    return found


def _words(project: Project, paths: RunPaths, plan: Plan) -> dict[str, str]:
    from harness.cli.analyze import again

    try:
        other = again(paths, project, plan)
    except HarnessError:
        return {}
    return {one["id"]: one["word"] for one in other["verdicts"]}


def _clock(seen: History) -> list[str]:
    from harness.store.clock import CLOCK

    last, now, found = "", CLOCK.utc(), []
    for entry in seen.entries:
        record = entry.record
        if record.at < last:
            found.append(f"clock anomaly: ledger record {record.n} says {record.at}, after {last}")
        if record.at > now:
            found.append(f"clock anomaly: ledger record {record.n} says {record.at}, now is {now}")
        last = max(last, record.at)
    return found


def opened(project: Project, study: str, paths: RunPaths) -> None:
    """Record, once, that the results of a locked run were looked at."""
    from harness.ledger.chain import Chain
    from harness.ledger.records import ResultOpened, append, history
    from harness.store.files import read_json

    manifest: Any = read_json(paths.manifest)
    if manifest["lock_digest"] is None or not paths.seal.exists():
        return
    own = manifest["role"] != "registered"
    chain = Chain(paths.chain if own else project.ledger(study))
    plan, run_id = str(manifest["plan"]), paths.root.name
    seen = history(chain)
    if seen.started(plan, run_id) and not seen.opened(plan, run_id):
        append(chain, ResultOpened(plan=plan, run_id=run_id))


def verified(project: Project, paths: RunPaths, heads: Mapping[str, Head] | None = None) -> Exit:
    """Verify a run before anything is said about it; what changed or is missing is printed."""
    from harness.cli.verify import show
    from harness.prereg.verify import verify_project

    root = paths.root.resolve()
    if not root.is_relative_to(project.root.resolve()):
        return Exit.DONE
    findings = [one for one in verify_project(project, root, heads=heads) if not one.remark]
    code = worst([one.code for one in findings])
    if code in (Exit.CHANGED, Exit.INCOMPLETE):
        show(findings)
    return code
