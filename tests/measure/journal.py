"""Synthetic journals: what a run of two arms over some blocks would have recorded."""

from __future__ import annotations

from typing import Any

from harness.plan.compose import compose
from harness.plan.digest import plan_digest
from harness.plan.order import OrderTable, order_table
from harness.plan.schema import Plan
from harness.store.paths import find_project

Json = dict[str, Any]
NS = 10**9


def demo_plan(**updates: Any) -> Plan:
    """The shipped fake plan, with fields replaced."""
    return compose(find_project(), "demo_fake").plan.model_copy(update=updates)


def order_of(plan: Plan) -> OrderTable:
    return order_table(plan, plan_digest(plan), "0" * 64)


def trial(item: str, arm: str, visit: int, block: int, **more: Any) -> Json:
    return {
        "kind": "trial",
        "phase": "scored",
        "key": {"item": item, "arm": arm, "visit": visit, "attempt": 1},
        "block": block,
        "status": "ok",
        "token_ids": [1, 2, 3],
        "text": "#### 1",
        "counters": {},
        "cache_bytes": 100,
        "score": {"status": "right", "answer": "1"},
        **more,
    }


def visit(block: int, position: int, arm: str, number: int, seconds: float, **more: Any) -> Json:
    names = ("prefill_ns", "decode_ns", "total_ns")
    timing = dict.fromkeys(names, round(seconds * NS))
    timing |= dict.fromkeys((n.replace("_ns", "_cpu_ns") for n in names), round(seconds * NS))
    return {
        "kind": "visit",
        "phase": "scored",
        "key": {"block": block, "arm": arm, "visit": number, "attempt": 1},
        "position": position,
        "launch": 0,
        "timing": timing,
        "tokens": 6,
        "timed": True,
        **more,
    }


def journal(plan: Plan, seconds: dict[str, float]) -> list[Json]:
    """A clean run: every arm takes its own seconds per visit, and every answer is right."""
    records: list[Json] = []
    for block in order_of(plan).planned:
        records.append({"kind": "block", "block": block.block, "event": "started"})
        for step in block.visits:
            records += [
                trial(f"i{item}", step.arm, step.visit, block.block) for item in block.items
            ]
            wobble = 1 + 0.001 * ((block.block * 7 + step.position) % 5)
            records.append(
                visit(block.block, step.position, step.arm, step.visit, seconds[step.arm] * wobble)
            )
        records.append({"kind": "block", "block": block.block, "event": "finished"})
    return records
