"""The short A/B behind `harness ab`: a plan made on the spot, its length fixed before it starts."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store.canonical import Json, canonical
from harness.store.errors import NotReadyError, UsageError

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.run.context import Progress, WorkerFactory
    from harness.store.paths import Project

AA_BLOCKS = 8
FEWEST, MOST = 6, 200
"""Blocks; fewer say little about the noise between them."""
_TRIED = 10
_OWN_S = 0.004
"""The harness's own share of a visit."""
CLOCKS = {"wall": "decode_seconds", "cpu": "decode_cpu_seconds"}


@dataclass(frozen=True)
class Duel:
    """Two arms and how their workers are started."""

    plan: Plan
    start: WorkerFactory
    pair: tuple[str, str]


def of_programs(commands: tuple[list[str], list[str]], items: int, tokens: int) -> Duel:
    """Return a duel of two programs that speak the wire, started in the current folder."""
    from harness.backends.process import command
    from harness.run.launch import worker_environment
    from harness.run.process import WorkerProcess

    lines = {name: command({"command": words}) for name, words in zip("ab", commands, strict=True)}

    def start(arm: str, log: Path, under: Sequence[str] = ()) -> WorkerProcess:
        environment = worker_environment(1, foreign=True)
        words = [*under, *lines[arm]]
        return WorkerProcess(words, log, environment=environment, folder=Path.cwd())

    arms = {
        "a": {"role": "pristine", "backend": "process", "options": {"command": ["program-a"]}},
        "b": {"role": "control", "backend": "process", "options": {"command": ["program-b"]}},
    }
    values = {
        "model": {"name": "none", "loops": 1},
        "task": {"max_tokens": tokens},
        "arms": arms,
        "source": {"source": "arithmetic", "seed": "ab"},
    }
    return Duel(_plan(values, ("a", "b"), items, FEWEST), start, ("a", "b"))


def of_arms(project: Project, plan: Plan, pair: tuple[str, str]) -> Duel:
    """Return a duel of two arms of a plan.

    Raises:
        UsageError: no such arm, or none of them is pristine.
    """
    from harness.run.launch import local_workers

    for name in pair:
        if name not in plan.arms:
            raise UsageError(f"{name}: no such arm; arms are {', '.join(plan.arms)}")
    if not any(plan.arms[name].role == "pristine" for name in pair):
        raise UsageError(f"{pair[0]} and {pair[1]}: one of them must be pristine, for the A/A")
    values = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    values["arms"] = {name: values["arms"][name] for name in pair}
    values["source"] = values["partitions"]
    made = _plan(values, pair, plan.schedule.block_items, FEWEST, plan.schedule.threads)
    return Duel(made, local_workers(made, project), pair)


def _plan(values: Json, pair: tuple[str, str], items: int, blocks: int, threads: int = 1) -> Plan:
    from harness.plan.checks import check
    from harness.plan.schema import Plan

    source = {k: v for k, v in values["source"].items() if k in ("source", "seed", "options")}
    kinds = [("log_ratio", of, "block") for of in CLOCKS.values()]
    kinds.append(("agreement", "tokens", "item"))
    predictions = [
        {
            "id": f"D{number}",
            "claim": f"{kind} of {of}",
            "estimand": {"kind": kind, "of": of, "cluster": cluster, "arms": list(pair)},
            "region": [0.5, None],
            "family": "descriptive",
            "confidence": 0.5,
            "min_clusters": 2,
        }
        for number, (kind, of, cluster) in enumerate(kinds, start=1)
    ]
    return check(
        Plan.model_validate_json(
            canonical(
                {
                    "plan": "ab",
                    "study": "ab",
                    "stage": "explore",
                    "question": "ab",
                    "title": f"{pair[1]} against {pair[0]}",
                    "model": values["model"],
                    "task": values["task"],
                    "partitions": {**source, "explore": blocks * items},
                    "arms": values["arms"],
                    "schedule": {
                        "design": "abba_baab",
                        "pair": list(pair),
                        "block_items": items,
                        "blocks": blocks,
                        "aa_blocks": AA_BLOCKS,
                        "warmup_visits": 1,
                        "launches_per_arm": 1,
                        "threads": threads,
                    },
                    "measurements": ["generation"],
                    "limits": values.get("limits", {}),
                    "predictions": predictions,
                }
            )
        )
    )


def resized(duel: Duel, blocks: int) -> Duel:
    """Return the same duel over another number of blocks."""
    values = duel.plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    values["source"] = values["partitions"]
    schedule = duel.plan.schedule
    made = _plan(values, duel.pair, schedule.block_items, blocks, schedule.threads)
    return replace(duel, plan=made)


def blocks_within(duel: Duel, seconds: float) -> int:
    """Return how many blocks fit, from one timed visit of each program; decided before the A/A."""
    left = seconds - 2 * sum(_visit_s(duel, arm)[0] for arm in duel.pair)
    visit = sum(_visit_s(duel, arm)[1] for arm in duel.pair) / 2 + _record_s()
    fit = int(left / (4 * visit)) - AA_BLOCKS
    return min(MOST, max(FEWEST, fit))


def _record_s() -> float:
    """Return what it takes to record a visit here; the disk's sync is most of it."""
    from harness.store.framed import FramedLog

    with tempfile.TemporaryDirectory() as folder, FramedLog(Path(folder) / "log") as log:
        began = time.monotonic()
        for place in range(_TRIED):
            log.append({"n": place, "text": "x" * 4000})
        return (time.monotonic() - began) / _TRIED + _OWN_S


def _visit_s(duel: Duel, arm: str) -> tuple[float, float]:
    """Return the seconds of a start and of a warm visit."""
    from harness.cli.wiring import draw_items
    from harness.run.hello import hello
    from harness.run.process import WorkerDiedError, WorkerReplyError

    limits, count = duel.plan.limits, duel.plan.schedule.block_items
    items = draw_items(duel.plan, "explore", "calibration", count)
    batch = [{"id": item.id, "prompt": item.prompt} for item in items]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        worker = duel.start(arm, Path(folder) / "calibration.err")
        try:
            worker.request(hello(duel.plan, arm, "calibration"), limits.start_timeout_s)
            started = time.monotonic() - began
            request: Json = {"op": "generate", "id": 0, "items": batch}
            request["timeout_s"] = limits.item_timeout_s
            for _ in range(2):
                began = time.monotonic()
                worker.request({"op": "reset"}, limits.start_timeout_s)
                worker.request(request, limits.block_timeout_s)
            return started, time.monotonic() - began
        except (WorkerDiedError, WorkerReplyError) as error:
            raise NotReadyError(f"{arm}: {error}") from error
        finally:
            worker.close()


def fight(duel: Duel, show: Callable[[Progress], None]) -> Json:
    """Run the duel in a folder that goes away, and return its analysis.

    Raises:
        VoidError: the A/A control failed, or a cache survived its reset.
    """
    from harness.cli.wiring import aa_interval, score, scored_items
    from harness.measure.evaluate import Scope, evaluate
    from harness.plan.digest import plan_digest
    from harness.plan.order import order_table
    from harness.run.context import RunContext
    from harness.run.folder import create_run
    from harness.run.supervisor import execute
    from harness.store.files import read_json
    from harness.store.framed import read_framed
    from harness.store.paths import Project
    from harness.store.randomness import nonce as fresh_nonce

    nonce, plan = fresh_nonce(), duel.plan
    with tempfile.TemporaryDirectory(prefix="harness-ab-") as folder:
        project = Project(Path(folder))
        paths = create_run(project, plan, role="unregistered", nonce=nonce, lock_digest=None)
        order = order_table(plan, plan_digest(plan), nonce)
        items, explore = scored_items(plan, nonce)
        context = RunContext(
            project=project,
            plan=plan,
            paths=paths,
            order=order,
            items=items,
            explore=explore,
            score=score,
            start_worker=duel.start,
            aa_interval=aa_interval,
            seed=nonce,
            progress=show,
        )
        execute(context)
        manifest: Any = read_json(paths.manifest)
        scope = Scope(paths.root.name, "unregistered", 1, None, manifest["machine"]["device_class"])
        return evaluate(plan, order, read_framed(paths.journal), scope)


def cores_busy() -> str | None:
    """Return a warning where the machine is busy already."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"the machine was busy: load {load:.1f} on {cores} cores" if load > cores / 2 else None
