"""From a run on the fake engine to its analysis, without processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.measure.evaluate import Scope, evaluate
from harness.plan.checks import check
from harness.plan.schema import Plan
from harness.run.context import RunContext
from harness.run.supervisor import execute
from harness.store.canonical import Json, canonical
from tests.run.bench import interval, journal, new_run, plan_of
from tests.run.inline import inline

SPEED = {
    "id": "P1", "claim": "the patched engine is faster", "family": "primary", "confidence": 0.5,
    "estimand": {"kind": "log_ratio", "of": "decode_seconds", "cluster": "block"},
    "region": [1.0, None], "open": True, "min_clusters": 6,
}  # fmt: skip
SAME = {
    "id": "P2", "claim": "the tokens are the same", "family": "secondary", "confidence": 0.5,
    "estimand": {"kind": "agreement", "of": "tokens", "cluster": "item"},
    "region": [0.999, None], "rule": "point", "min_clusters": 6,
}  # fmt: skip


def predicting(plan: Plan, *predictions: Json) -> Plan:
    """The same plan with predictions."""
    values = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    return check(Plan.model_validate_json(canonical({**values, "predictions": list(predictions)})))


def plan_with(arms: Json | None = None, *predictions: Json, **schedule: Any) -> Plan:
    """A plan of one launch; by default 12 blocks without A/A."""
    chosen = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 12, **schedule}
    return predicting(plan_of(arms, chosen), *(predictions or (SPEED, SAME)))


def analysis(context: RunContext) -> Json:
    scope = Scope(context.paths.root.name, "unregistered", 1, None, "virtual")
    return evaluate(context.plan, context.order, journal(context.paths), scope)


def ran(folder: Path, plan: Plan, **changes: Any) -> tuple[RunContext, Json]:
    """Run a plan in this process and analyse it."""
    context = new_run(folder, plan, **{"start_worker": inline, "aa_interval": interval, **changes})
    execute(context)
    return context, analysis(context)


def verdict(found: Json, name: str) -> Json:
    return next(dict(one) for one in found["verdicts"] if one["id"] == name)
