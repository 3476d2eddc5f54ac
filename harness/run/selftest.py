"""An engine's own self-test: invariants that it checks in a worker, where it has any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.plan.schema import Plan
from harness.run.context import WorkerFactory
from harness.run.hello import hello
from harness.run.privacy import scrubbed
from harness.run.process import WorkerDiedError, WorkerProcess, WorkerReplyError
from harness.store.canonical import Json

NO_SELFTEST = "this engine has no self-test"


def engine_checks(
    plan: Plan, arm: str, start: WorkerFactory, prompts: Sequence[str], log: Path, seed: str
) -> list[Json]:
    """Ask a fresh worker of an arm to test itself; [{name, ok, detail, …}].

    An engine without a self-test gives one passing check that says so; a worker that does not
    start gives a failing one.
    """
    worker = start(arm, log)
    try:
        return _asked(worker, plan, arm, prompts, seed)
    except (WorkerDiedError, WorkerReplyError) as error:
        return [_check(f"arms.{arm}: self-test", ok=False, detail=f"did not answer: {error}")]
    finally:
        worker.close()


def _asked(
    worker: WorkerProcess, plan: Plan, arm: str, prompts: Sequence[str], seed: str
) -> list[Json]:
    limit = plan.limits.start_timeout_s
    greeting = worker.request(hello(plan, arm, seed), limit)
    if greeting.get("selftest") is not True:
        return [_check(f"arms.{arm}: starts", ok=True, detail=NO_SELFTEST)]
    reply = worker.request({"op": "selftest", "prompts": list(prompts)}, limit)
    checks = reply.get("checks")
    if not isinstance(checks, list) or not checks:
        raise WorkerReplyError("bug", "checks: expected a list that is not empty")
    return [_checked(arm, entry) for entry in checks]


def _checked(arm: str, entry: object) -> Json:
    """Return a check with an outcome that only a plain true makes good."""
    if not isinstance(entry, dict):
        raise WorkerReplyError("bug", "checks: expected objects")
    more = scrubbed({k: v for k, v in entry.items() if k not in ("name", "ok", "detail")})
    name, detail = str(entry.get("name")), str(entry.get("detail", ""))
    check = _check(f"arms.{arm}: {name}", ok=entry.get("ok") is True, detail=detail)
    return {**more, **check}


def _check(name: str, *, ok: bool, detail: str) -> Json:
    return {"name": name, "ok": ok, "detail": detail}
