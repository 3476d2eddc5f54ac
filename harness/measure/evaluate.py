"""The analysis of one run: what a report shows, from plan, order and records alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from harness.analysis import PassCost
from harness.measure.arms import arm_summaries, mean_log
from harness.measure.bars import bars, positions
from harness.measure.cost import fit_cost
from harness.measure.order_effects import order_effects
from harness.measure.scored import Scored, scored
from harness.measure.verdicts import verdicts
from harness.plan.digest import plan_digest
from harness.plan.order import OrderTable, pair_of
from harness.plan.schema import Plan
from harness.plan.visible import decode_clock, tells_cpu_time
from harness.store.canonical import Json


@dataclass(frozen=True)
class Scope:
    """What a verdict is about, beside the plan."""

    run_id: str
    role: str
    attempt: int
    seal_digest: str | None
    device_class: str
    lock_differences: tuple[str, ...] = ()
    """What differed from the lock without forbidding the run."""
    anchored: bool = False
    """Whether a third party anchored the lock."""


def evaluate(plan: Plan, order: OrderTable, records: list[Json], scope: Scope) -> Json:
    """Return the analysis as JSON; the same records give the same bytes."""
    data = scored(records, order)
    pair = pair_of(plan)
    aa, clock = _last(records, "aa"), decode_clock(plan)
    bound = near_tie_bound(records)
    summaries = arm_summaries(plan, data, pair[0], bound)
    return {
        "format": 1,
        "plan": plan.plan,
        "study": plan.study,
        "title": plan.title,
        "question": plan.question,
        "run_id": scope.run_id,
        "plan_digest": plan_digest(plan),
        "seal_digest": scope.seal_digest,
        "role": scope.role,
        "attempt": scope.attempt,
        "scope": {
            "model": plan.model.name,
            "loops": plan.model.loops,
            "dtype": plan.model.dtype,
            "source": plan.partitions.source,
            "device_class": scope.device_class,
            "anchored": scope.anchored,
        },
        "arms": summaries,
        "verdicts": verdicts(plan, data, scope.attempt, _run_void(aa)),
        "aa": aa,
        "bars": bars(plan, data, pair, aa),
        "order": order_effects(data, pair, list(plan.arms), clock) if data.visits else {},
        "blocks": _blocks(data),
        "cost_model": _cost(plan, data),
        "lock_differences": list(scope.lock_differences),
        "near_ties": near_ties(summaries, bound),
        "threats": _threats(plan, data, aa),
        "series": {
            "names": list(pair),
            "pair": _series(plan, data, pair),
            "arms": {},
            "positions": positions(data, list(plan.arms), clock),
        },
    }


def _last(records: list[Json], kind: str) -> Json | None:
    found = [record for record in records if record["kind"] == kind]
    return found[-1] if found else None


def near_tie_bound(records: list[Json]) -> float:
    """Return the engine's rounding bound that the run's self-test measured, 0 where it did not."""
    return max(
        (
            float(check.get("rounding_bound", 0.0))
            for record in records
            if record["kind"] == "selftest"
            for check in record["checks"]
        ),
        default=0.0,
    )


def near_ties(summaries: dict[str, Json], bound: float) -> Json:
    """Return how many divergences from pristine, over all arms at full depth, were near ties."""
    found = [
        s["agreement_with_pristine"]
        for s in summaries.values()
        if s["role"] != "control" and "agreement_with_pristine" in s
    ]
    return {
        "counted": sum(one["near_ties"] for one in found),
        "unexplained": sum(one["unexplained"] for one in found),
        "tokens": sum(one["tokens"] for one in found),
        "margin": bound,
    }


def _run_void(aa: Json | None) -> str | None:
    if aa is None or aa["ok"]:
        return None
    return f"the A/A control lies outside ±{aa['delta']:g}"


def _blocks(data: Scored) -> Json:
    blocks = data.blocks
    return {
        "planned": len(blocks.planned),
        "timed": len(blocks.timing),
        "scored": len(blocks.quality & blocks.finished),
        "interrupted": len(blocks.interrupted),
        "void": len(blocks.void),
        "spare_used": len(blocks.spares),
    }


def _cost(plan: Plan, data: Scored) -> Json | None:
    """Fit one model over all arms: they share the engine and its kernels.

    Arms of one depth and one decoder move all counters together, so that the three costs are told
    apart only where arms differ in both.
    """
    model = fit_cost(data, list(plan.arms), data.blocks.timing)
    return None if model is None else asdict(model) | _regime(plan, model)


def _regime(plan: Plan, model: PassCost) -> Json:
    decode = [arm.decode for arm in plan.arms.values() if arm.decode is not None]
    drafts = [d.draft_tokens for d in decode if isinstance(d.draft_tokens, int)]
    if not drafts:
        return {}
    tokens = max(drafts) + 1
    batch = plan.schedule.block_items
    ratio = model.verify_ratio(batch, tokens, plan.model.loops)
    return {"verified_tokens": tokens, "batch": batch, "verify_ratio": ratio}


def _threats(plan: Plan, data: Scored, aa: Json | None) -> list[str]:
    threats = []
    if data.blocks.interrupted:
        threats.append(f"{len(data.blocks.interrupted)} blocks were interrupted")
    if data.blocks.void:
        threats.append(f"{len(data.blocks.void)} blocks are void by a frozen limit")
    if aa is None:
        threats.append("no A/A control was run, so the noise floor between two workers is unknown")
    first, second = (arm for arm in pair_of(plan))
    tokens = [
        sum(v["tokens"] for v in data.visits_of(arm, data.blocks.timing)) for arm in (first, second)
    ]
    if min(tokens) > 0 and abs(math.log(tokens[0] / tokens[1])) > 1e-3:
        threats.append(
            f"{first} produced {tokens[0]} tokens and {second} {tokens[1]} in the timed blocks, so "
            "their times are not about the same work"
        )
    return threats


def _series(plan: Plan, data: Scored, pair: tuple[str, str]) -> list[Json]:
    """Per block, the pair's log ratio in both clocks, with launch and order; for figures."""
    rows, clocks = [], {"log_ratio_wall": "decode_seconds"}
    if tells_cpu_time(plan):
        clocks = {"log_ratio_cpu": "decode_cpu_seconds", **clocks}
    for block in sorted(data.blocks.timing):
        left, right = (data.visits_of(arm, [block]) for arm in pair)
        if left and right:
            row: Json = {"block": block, "launch": left[0]["launch"]}
            row["order"] = "".join(
                "A" if arm == pair[0] else "B"
                for _, arm in sorted((v["position"], v["key"]["arm"]) for v in left + right)
            )
            for label, name in clocks.items():
                row[label] = mean_log(left, name) - mean_log(right, name)
            rows.append(row)
    return rows
