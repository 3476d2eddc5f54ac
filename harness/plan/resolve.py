"""Fill in what a selection chose."""

from __future__ import annotations

from harness.plan.schema import ArmSpec, Candidate, Plan
from harness.store.errors import UsageError


def is_resolved(plan: Plan) -> bool:
    """Whether nothing in the plan waits for a selection."""
    return plan.selection is None or plan.selection.chosen is not None


def resolve(plan: Plan, chosen: str) -> Plan:
    """Return the plan with every `selected` option replaced by the chosen candidate's.

    Raises:
        UsageError: the candidate is unknown or lacks an option that an arm wants.
    """
    if plan.selection is None:
        raise UsageError(f"conf/{plan.plan}.yaml: selection: the plan has none")
    names = [candidate.arm for candidate in plan.selection.candidates]
    if chosen not in names:
        raise UsageError(f"selection.candidates: {chosen} is not among {', '.join(names)}")
    candidate = plan.selection.candidates[names.index(chosen)]
    arms = {name: _fill(name, arm, candidate) for name, arm in plan.arms.items()}
    selection = plan.selection.model_copy(update={"chosen": chosen})
    return plan.model_copy(update={"arms": arms, "selection": selection})


def _fill(name: str, arm: ArmSpec, candidate: Candidate) -> ArmSpec:
    updates: dict[str, object] = {}
    for part in ("cache", "decode"):
        spec = getattr(arm, part)
        wanted = [] if spec is None else [k for k, v in spec if v == "selected"]
        values = {key: getattr(candidate, key) for key in wanted}
        for key in (key for key, value in values.items() if value is None):
            raise UsageError(f"arms.{name}.{part}.{key}: candidate {candidate.arm} has no {key}")
        if wanted:
            updates[part] = spec.model_copy(update=values)
    return arm.model_copy(update=updates)
