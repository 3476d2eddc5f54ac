"""What a claim must bring along: a margin with its reason, fresh data, a control that fails it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.plan.schema import Plan, Prediction
from harness.store.errors import UsageError

NO_EFFECT = {"log_ratio": 1.0, "ratio_of_sums": 1.0, "mean_diff": 0.0, "agreement": 1.0}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_claims(plan: Plan, batches: dict[str, set[str]], own: set[str]) -> list[str]:
    """Return what is worth a second look, one sentence each.

    `batches` are the scored items of every frozen plan of the project, `own` those of this one.

    Raises:
        UsageError: "no difference" without a reasoned margin, or a region that was fitted on the
        very items that are to test it.
    """
    flags: list[str] = []
    for prediction in plan.predictions:
        where = f"conf/{plan.plan}.yaml: predictions.{prediction.id}"
        _refuse_fitted(plan, prediction, batches, own, where)
        if tolerates_no_effect(prediction) and not prediction.margin_reason:
            text = (
                f"{where}.region: {list(prediction.region)} holds where nothing changed, so it is "
                "a claim of no difference; say in margin_reason why this margin"
            )
            if prediction.family == "primary":
                raise UsageError(text)
            flags.append(text)
        flags += [f"{where}: {text}" for text in _weak(plan, prediction)]
    return flags


def tolerates_no_effect(prediction: Prediction) -> bool:
    """Whether the region lies around "no effect": equivalence or non-inferiority."""
    nothing = NO_EFFECT.get(prediction.estimand.kind)
    if nothing is None or prediction.family == "control":
        return False
    low, high = prediction.region
    above = low is None or low < nothing
    below = high is None or high > nothing or prediction.estimand.kind == "agreement"
    return above and below


def _refuse_fitted(
    plan: Plan, prediction: Prediction, batches: dict[str, set[str]], own: set[str], where: str
) -> None:
    for name in _NAME.findall(prediction.informed_by or ""):
        same = own if name == plan.plan else batches.get(name, set()) & own
        if same:
            raise UsageError(
                f"{where}.informed_by: {name} scored {len(same)} of the items that are to test "
                "this prediction; a region fitted on a batch is not tested by it, so draw others"
            )


def _weak(plan: Plan, prediction: Prediction) -> Iterator[str]:
    estimand = prediction.estimand
    quality = estimand.of in ("correct", "tokens") and tolerates_no_effect(prediction)
    controls = [
        other
        for other in plan.predictions
        if other.family == "control"
        and (other.estimand.kind, other.estimand.of) == (estimand.kind, estimand.of)
    ]
    if quality and not controls:
        yield "a claim of no loss without a control prediction that must fail the same margin"
    if prediction.rule == "point" and prediction.family in ("primary", "secondary"):
        yield "rule: point: decided by the estimate alone, whatever its interval"
