"""What the floors below are handed: items, scores, models, code files, the A/A interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness.store.errors import IncompleteError, UsageError
from harness.store.paths import Project, RunPaths

if TYPE_CHECKING:
    from harness.plan.order import OrderTable
    from harness.plan.schema import Plan
    from harness.prereg.lock import Lock
    from harness.tasks.items import Item

PACKAGE = Path(harness.__file__).parent
MEASURING = (
    "analysis",
    "backends",
    "ledger",
    "looped",
    "measure",
    "plan",
    "prereg",
    "run",
    "store",
    "tasks",
)
"""Packages whose code decides what is measured and how it is judged; locked with a plan."""
_BESIDE_SOURCES = frozenset({"cpu.txt", "cuda.txt", "entry_points.txt"})


def draw_items(plan: Plan, bucket: str, key: str, count: int) -> tuple[Item, ...]:
    """Draw items of a plan's source.

    Raises:
        UsageError: the plan's source or its options cannot give them.
    """
    from harness.tasks.items import ItemError
    from harness.tasks.sources import draw

    partitions = plan.partitions
    try:
        return draw(partitions.source, bucket, key, count, partitions.options)
    except (ItemError, TypeError) as error:
        raise UsageError(f"conf/{plan.plan}.yaml: partitions.{error}") from error


def scored_items(plan: Plan, nonce: str) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return the items of the plan's stage, spares included, and the unscored explore items."""
    from harness.plan.digest import plan_digest
    from harness.prereg.partitions import count_of, partition_key

    digest = plan_digest(plan)
    key = partition_key(plan, plan.stage, digest, nonce)
    wanted = count_of(plan, plan.stage)
    if plan.stage != "explore":
        explore_key = partition_key(plan, "explore", digest, nonce)
        explore = draw_items(plan, "explore", explore_key, count_of(plan, "explore"))
        return draw_items(plan, plan.stage, key, wanted), explore
    unscored = plan.schedule.block_items * (plan.schedule.aa_blocks + 1)
    drawn = draw_items(plan, "explore", key, wanted + unscored)
    return drawn[:wanted], drawn[wanted:]


def score(item: Any, text: str) -> dict[str, Any]:
    """Score an answer's text: right, wrong or no answer, and the number that was read."""
    from harness.tasks import answers

    found = answers.extract(text)
    return {
        "status": answers.score(text, item.answer),
        "answer": None if found is None else str(found.value),
    }


def model_files(project: Project, plan: Plan) -> list[Path]:
    """Return the files of the plan's checkpoint; none for engines without one.

    Raises:
        IncompleteError: the folder is missing.
    """
    name = plan.model.name
    if name == "none":
        return []
    for folder in (PACKAGE / "models" / name, project.root / name):
        if (folder / "config.json").is_file():
            files = (path for path in folder.iterdir() if path.is_file())
            return sorted(path for path in files if _decides(path))
    raise IncompleteError(
        f"model {name}: no such embedded model or folder; `harness train` makes the embedded ones"
    )


def _decides(path: Path) -> bool:
    """Whether a file of a model's folder decides what it computes; its card only describes."""
    return path.suffix == ".safetensors" or path.name in {"config.json", "tokenizer.json"}


def code_files() -> list[Path]:
    """Return what decides what is measured and how it is judged: sources and engines' locks."""
    found = (path for name in MEASURING for path in (PACKAGE / name).rglob("*"))
    return sorted(path for path in found if path.suffix == ".py" or path.name in _BESIDE_SOURCES)


def aa_interval(logs: Sequence[float]) -> dict[str, Any]:
    """Return the 90 % interval of the mean A/A log ratio: equivalence at 5 % by two tests."""
    from harness.analysis import Interval, cr2_interval

    found = cr2_interval(list(logs), [1.0] * len(logs), confidence="0.9")
    if not isinstance(found, Interval):
        return {"estimate": None, "low": None, "high": None, "not_estimable": found.reason}
    return {"estimate": found.estimate, "low": found.low, "high": found.high, "confidence": 0.9}


def analyse(
    plan: Plan, order: OrderTable, paths: RunPaths, *, role: str, attempt: int
) -> dict[str, Any]:
    """Return the analysis of a run from its records."""
    from harness.measure.evaluate import Scope, evaluate
    from harness.store.digests import sha256_file
    from harness.store.files import read_json
    from harness.store.framed import read_framed

    manifest: Any = read_json(paths.manifest)
    seal = sha256_file(paths.seal) if paths.seal.exists() else None
    scope = Scope(
        run_id=paths.root.name,
        role=role,
        attempt=attempt,
        seal_digest=seal,
        device_class=manifest["machine"]["device_class"],
        lock_differences=tuple(manifest["lock_differences"]),
    )
    return evaluate(plan, order, read_framed(paths.journal), scope)


def figures(lock: Lock, paths: RunPaths) -> dict[str, dict[str, Any]]:
    """Return every arm's figures of a sealed run, for a selection rule."""
    from harness.plan.order import order_table

    plan = lock.typed_plan()
    order = order_table(plan, lock.plan_digest, lock.nonce)
    found = analyse(plan, order, paths, role="registered", attempt=lock.attempt)
    return {name: _figures(arm) for name, arm in found["arms"].items()}


def _figures(arm: dict[str, Any]) -> dict[str, Any]:
    figures = {name: value for name, value in arm.items() if isinstance(value, int | float)}
    agreement = arm.get("agreement_with_pristine")
    if agreement and agreement["tokens"]:
        figures["token_match"] = agreement["matched_tokens"] / agreement["tokens"]
        figures["answers_match"] = agreement["k"] / agreement["n"]
    if "accuracy" in arm:
        figures["accuracy"] = arm["accuracy"]["k"] / arm["accuracy"]["n"]
    return figures
