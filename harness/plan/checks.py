"""What types alone cannot say: arms, blocks, selection and predictions fit together."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plan.caching import cache_problems, decode_problems
from harness.plan.schema import ArmSpec, EnvironmentSpec, Plan, Prediction
from harness.plan.visible import unseen
from harness.store.errors import UsageError


def check(plan: Plan) -> Plan:
    """Return the plan unchanged.

    Raises:
        UsageError: naming the key, what was found and what is expected.
    """
    for problem in _problems(plan):
        raise UsageError(f"conf/{plan.plan}.yaml: {problem}")
    return plan


def _problems(plan: Plan) -> Iterator[str]:
    yield from _arms(plan)
    yield from _schedule(plan)
    yield from _selection(plan)
    ids = [prediction.id for prediction in plan.predictions]
    for duplicate in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"predictions: {duplicate} appears twice; give each prediction its own id"
    for prediction in plan.predictions:
        yield from _prediction(plan, prediction)
    yield from unseen(plan)


def _arms(plan: Plan) -> Iterator[str]:
    pristine = [name for name, arm in plan.arms.items() if arm.role == "pristine"]
    if not pristine:
        yield "arms: no arm has role pristine; a comparison needs one"
    for name, arm in plan.arms.items():
        yield from (f"arms.{name}.{problem}" for problem in _arm(arm))


def _arm(arm: ArmSpec) -> Iterator[str]:
    cache, decode = arm.cache, arm.decode
    if cache is not None:
        yield from cache_problems(cache)
    if decode is not None:
        yield from decode_problems(decode, cache)
    if arm.backend == "looped" and (cache is None or decode is None):
        yield "backend: looped needs cache and decode"
    if arm.environment is not None:
        for file in environment_files(arm.environment):
            if file not in arm.patch:
                yield f"environment: {file} is not in patch; list it there, so that it is frozen"
    if arm.backend == "process" and not arm.options.get("command"):
        yield "options.command: missing; give the program and its arguments as a list"


def environment_files(spec: EnvironmentSpec) -> list[str]:
    """Return the project files that an arm's environment is built from."""
    diff = [spec.source.diff] if spec.source else []
    return [*([spec.lock] if spec.lock else []), *(spec.wheels or []), *diff]


def _schedule(plan: Plan) -> Iterator[str]:
    schedule = plan.schedule
    wanted = schedule.blocks * schedule.block_items
    found = getattr(plan.partitions, plan.stage)
    if found != wanted:
        yield (
            f"partitions.{plan.stage}: found {found}, expected schedule.blocks × block_items = "
            f"{wanted}"
        )
    for name in schedule.pair or ():
        if name not in plan.arms:
            yield f"schedule.pair: {name} is not an arm; arms are {', '.join(plan.arms)}"
    if schedule.launches_per_arm > schedule.blocks:
        yield "schedule.launches_per_arm: more launches than blocks"


def _selection(plan: Plan) -> Iterator[str]:
    wanted = [name for name, arm in plan.arms.items() if _selected(arm)]
    if wanted and plan.selection is None:
        yield f"arms.{wanted[0]}: says 'selected' but the plan has no selection"
    if plan.selection is None:
        return
    rule = plan.selection.rule
    if (rule.maximize is None) == (rule.minimize is None):
        yield "selection.rule: name exactly one of maximize and minimize"
    if not plan.selection.candidates:
        yield "selection.candidates: empty"


def _selected(arm: ArmSpec) -> bool:
    cache = arm.cache.window if arm.cache else None
    drafts = (arm.decode.draft_loops, arm.decode.draft_tokens) if arm.decode else ()
    return "selected" in (cache, *drafts)


def _prediction(plan: Plan, prediction: Prediction) -> Iterator[str]:
    where = f"predictions.{prediction.id}"
    estimand = prediction.estimand
    for name in estimand.arms:
        if name not in plan.arms:
            yield f"{where}.estimand.arms: {name} is not an arm; arms are {', '.join(plan.arms)}"
    low, high = prediction.region
    if low is None and high is None:
        yield f"{where}.region: has no end, so it could never fail"
    if low is not None and high is not None and low >= high:
        yield f"{where}.region: [{low}, {high}] is empty; put the lower end first"
    if estimand.kind == "mcnemar" and (prediction.rule, estimand.of) != ("point", "correct"):
        yield f"{where}: mcnemar is of correct, by rule point: a p-value has no interval"
    if estimand.kind == "model_ratio" and estimand.of != "tokens_per_verification":
        yield f"{where}.estimand.of: the one model is that of tokens_per_verification"
    if (estimand.kind == "rate") != (estimand.per is not None):
        yield f"{where}.estimand.per: a rate needs it and nothing else takes it"
    clusters = plan.schedule.blocks
    if estimand.cluster == "item":
        clusters *= plan.schedule.block_items
    if prediction.min_clusters > clusters:
        yield f"{where}.min_clusters: {prediction.min_clusters} exceeds the {clusters} planned"
