"""A small project on the fake engine, for every test that runs something."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.backends.fake import right_answer
from harness.plan.checks import check
from harness.plan.digest import plan_digest
from harness.plan.order import order_table
from harness.plan.schema import Plan
from harness.run.context import RunContext
from harness.run.folder import create_run
from harness.run.launch import local_workers
from harness.run.seal import seal
from harness.store.canonical import Json, canonical
from harness.store.framed import read_framed
from harness.store.paths import Project, RunPaths
from tests.run.inline import inline

NONCE = "5e" * 32

SCHEDULE = {
    "design": "abba_baab",
    "block_items": 2,
    "blocks": 6,
    "spare_blocks": 2,
    "warmup_visits": 1,
    "aa_blocks": 2,
    "launches_per_arm": 3,
}
LIMITS = {"item_timeout_s": 5.0, "block_timeout_s": 10.0, "start_timeout_s": 30.0}


@dataclass(frozen=True)
class Item:
    id: str
    prompt: str
    answer: str


def items(name: str, count: int, text: str = "What is") -> list[Item]:
    prompts = [f"{text} {place} + {place * 7 % 13}? ({name})" for place in range(count)]
    return [Item(f"{name}-{n}", p, right_answer(p)) for n, p in enumerate(prompts)]


def arm(role: str, **options: Any) -> Json:
    return {"role": role, "backend": "fake", "options": options}


def two_arms(pristine: Json | None = None, **patched: Any) -> Json:
    return {
        "pristine": arm("pristine", **(pristine or {})),
        "patched": arm("patched", **{"speedup": 2.0, **patched}),
    }


def plan_of(
    arms: Json | None = None, schedule: Json | None = None, limits: Json | None = None
) -> Plan:
    chosen = {**SCHEDULE, **(schedule or {})}
    values = {
        "plan": "tiny",
        "study": "demo",
        "stage": "select",
        "question": "does_it_run",
        "title": "A plan for tests",
        "model": {"name": "virtual", "loops": 1},
        "task": {"max_tokens": 16},
        "partitions": {
            "source": "arithmetic",
            "seed": "1",
            "explore": 8,
            "select": chosen["blocks"] * chosen["block_items"],
        },
        "arms": arms or two_arms(),
        "schedule": chosen,
        "measurements": ["generation"],
        "limits": {**LIMITS, "interrupted_share": 0.5, **(limits or {})},
    }
    return check(Plan.model_validate_json(canonical(values)))


def score(item: Any, text: str) -> Json:
    found = text.rpartition("####")[2].strip()
    if not found:
        return {"status": "no_answer", "answer": None}
    return {"status": "right" if found == item.answer else "wrong", "answer": found}


def interval(log_ratios: Sequence[float]) -> Json:
    spread = 3 * statistics.stdev(log_ratios) / math.sqrt(len(log_ratios)) + 1e-9
    middle = statistics.fmean(log_ratios)
    return {"estimate": middle, "low": middle - spread, "high": middle + spread}


def context_of(project: Project, plan: Plan, paths: RunPaths, **changes: Any) -> RunContext:
    order = order_table(plan, plan_digest(plan), NONCE)
    needed = len(order.blocks) * plan.schedule.block_items
    context = RunContext(
        project=project,
        plan=plan,
        paths=paths,
        order=order,
        items=items("item", needed),
        explore=items("explore", 8),
        score=score,
        start_worker=local_workers(plan, project),
        aa_interval=interval,
        seed="7",
    )
    return replace(context, **changes)


NEEDS_A_PROCESS = {
    "crash_at", "crash_item", "hang_item", "ghost", "stray_print", "probe_unstable",
    "memory_growth_mib", "real_sleep", "probe_fails",
}  # fmt: skip


def new_run(folder: Path, plan: Plan, **changes: Any) -> RunContext:
    """A new run; its workers are processes where a vice needs one, or `start_worker` says so."""
    project = Project(folder)
    paths = create_run(project, plan, role="unregistered", nonce=NONCE, lock_digest=None)
    arms = plan.arms.values()
    if all(arm.backend == "fake" and not NEEDS_A_PROCESS & set(arm.options) for arm in arms):
        changes = {"start_worker": inline, **changes}
    return context_of(project, plan, paths, **changes)


def real_run(folder: Path, plan: Plan, **changes: Any) -> RunContext:
    """A new run whose workers are processes."""
    start = local_workers(plan, Project(folder))
    return new_run(folder, plan, start_worker=start, **changes)


def journal(paths: RunPaths) -> list[Json]:
    return read_framed(paths.journal)


def kinds(records: list[Json], kind: str, **wanted: Any) -> list[Json]:
    return [
        record
        for record in records
        if record["kind"] == kind and all(record.get(k) == v for k, v in wanted.items())
    ]


def seal_run(paths: RunPaths) -> Json:
    return seal(paths, lock_digest=None, ledger_head=None)
