"""Run folders: created once with a manifest that never changes, found again to be resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import harness
from harness.plan.digest import plan_digest, plan_json
from harness.plan.order import order_table
from harness.plan.schema import Plan
from harness.prereg.environment import environment
from harness.run.context import Role
from harness.run.environment import machine
from harness.run.privacy import leaks
from harness.store.canonical import Json
from harness.store.clock import CLOCK, Clock
from harness.store.errors import HarnessError, RefusedError, UsageError
from harness.store.files import create_json, read_json, storage_errors
from harness.store.framed import bodies
from harness.store.paths import Project, RunPaths
from harness.store.randomness import derive

FORMAT = 1


def run_folders(project: Project, plan: str) -> list[RunPaths]:
    """Return a plan's runs that have a manifest, oldest first."""
    folder = project.runs(plan)
    roots = sorted(folder.iterdir()) if folder.is_dir() else []
    return [RunPaths(root) for root in roots if RunPaths(root).manifest.is_file()]


def unfinished(project: Project, plan: Plan, *, judged: bool = False) -> RunPaths | None:
    """Return the newest run of exactly this plan that is not sealed, or None.

    With `judged`, one that is sealed and lacks its verdicts is unfinished too. A void run has
    ended: nothing resumes it.
    """
    wanted = plan_digest(plan)
    for paths in reversed(run_folders(project, plan.plan)):
        ended = paths.seal.exists() and (paths.analysis.exists() or not judged)
        same = not ended and read_json(paths.manifest).get("plan_digest") == wanted
        if same and not _is_void(paths):
            return paths
    return None


def _is_void(paths: RunPaths) -> bool:
    """Whether a run stopped itself for good; what can't be read is for the runner to say."""
    with contextlib.suppress(HarnessError):
        return any(b'"event":"void","kind":"run"' in body for body in bodies(paths.journal))
    return False


def create_run(
    project: Project,
    plan: Plan,
    *,
    role: Role,
    nonce: str,
    lock_digest: str | None,
    lock_differences: Sequence[str] = (),
    clock: Clock = CLOCK,
) -> RunPaths:
    """Create the plan's next run and write its manifest.

    Raises:
        UsageError: the manifest would publish a name, a path or an index of this machine.
        RefusedError: somebody else created the same run at the same time.
    """
    ordinal = len(run_folders(project, plan.plan)) + 1
    digest = plan_digest(plan)
    run_id = run_id_of(digest, lock_digest or nonce, ordinal)
    manifest: Json = {
        "format": FORMAT,
        "plan": plan.plan,
        "study": plan.study,
        "run_id": run_id,
        "role": role,
        "plan_json": plan_json(plan),
        "plan_digest": digest,
        "nonce": nonce,
        "order_digest": order_table(plan, digest, nonce).digest,
        "lock_digest": lock_digest,
        "lock_differences": list(lock_differences),
        "started_utc": clock.utc(),
        "tool_version": harness.__version__,
        "machine": machine(plan.model.device, nonce),
        "environment": environment().model_dump(mode="json"),
    }
    for key, found in leaks(manifest):
        raise UsageError(f"run.json: {key}: holds {found}; a run's records are for publication")
    return _publish(project.run(plan.plan, run_id), manifest)


def run_id_of(plan_digest: str, anchor: str, ordinal: int) -> str:
    """Return a run's name: its ordinal, and what it is a run of."""
    return f"{ordinal:04d}-{derive('run-v1', plan_digest, anchor, str(ordinal)).hex()[:12]}"


def _publish(paths: RunPaths, manifest: Json) -> RunPaths:
    with storage_errors(paths.root):
        paths.root.mkdir(parents=True, exist_ok=True)
    try:
        create_json(paths.manifest, manifest)
    except FileExistsError:
        raise RefusedError(f"{paths.root.name}: was created by another process just now") from None
    return paths
