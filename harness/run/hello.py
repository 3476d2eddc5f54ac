"""What every worker is told first: its arm, the model, the task, threads and the seed."""

from __future__ import annotations

from harness.backends.base import PROTOCOL
from harness.plan.digest import plan_json
from harness.plan.schema import Plan
from harness.store.canonical import Json


def hello(plan: Plan, arm: str, seed: str) -> Json:
    """Return the first request to a worker of an arm."""
    values = plan_json(plan)
    return {
        "op": "hello",
        "protocol": PROTOCOL,
        "arm": values["arms"][arm],
        "model": values["model"],
        "task": values["task"],
        "threads": plan.schedule.threads,
        "seed": seed,
    }
