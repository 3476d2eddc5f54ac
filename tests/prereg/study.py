"""A small finished study, built with the project's own API: select → confirm, both sealed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
from harness.ledger.chain import Chain
from harness.ledger.records import (
    Counts,
    ResultOpened,
    RunSealed,
    RunStarted,
    VerdictEntry,
    Verdicts,
    append,
    start_registered,
)
from harness.plan.checks import check
from harness.plan.compose import Composed
from harness.plan.order import order_table
from harness.plan.schema import Plan
from harness.prereg.freeze import FreezeReport, Inputs, freeze
from harness.prereg.lock import Lock, lock_digest, read_lock
from harness.prereg.partitions import DrawnItem
from harness.prereg.schedule import counts
from harness.store.canonical import Json
from harness.store.clock import CLOCK
from harness.store.digests import digest, file_table, sha256_file
from harness.store.files import create_json
from harness.store.framed import FramedLog, read_framed
from harness.store.paths import Project, RunPaths

SELECT, CONFIRM = "select_raven", "confirm_raven"
RUNS = {SELECT: "0001-aaaaaaaaaaaa", CONFIRM: "0001-bbbbbbbbbbbb"}


def arm(role: str, policy: str = "full", window: object = None, **more: object) -> Json:
    cache: Json = {"policy": policy}
    if window is not None:
        cache["window"] = window
    return {"role": role, "backend": "fake", "cache": cache, **more}


def prediction(name: str = "P1", **changes: Any) -> Json:
    estimand = {
        "kind": "log_ratio", "of": "decode_cpu_seconds", "cluster": "block",
        "arms": ("pristine", "ripe"),
    }  # fmt: skip
    return {
        "id": name, "claim": "faster", "estimand": estimand | changes.pop("estimand", {}),
        "region": (1.1, None), "family": "primary", "confidence": 0.8, "min_clusters": 3,
    } | changes  # fmt: skip


def plan(name: str = CONFIRM, **changes: Any) -> Plan:
    """A confirm plan, or a select plan if the name says so; `changes` replace whole keys."""
    stage = "select" if name.startswith("select") else "confirm"
    blocks, items = (2, 2) if stage == "select" else (4, 2)
    values: Json = {
        "plan": name,
        "study": "raven",
        "stage": stage,
        "question": "choice" if stage == "select" else "faster",
        "title": "a café — fast",
        "model": {"name": "tiny", "loops": 4},
        "task": {"max_tokens": 8},
        "partitions": {"source": "arithmetic", "seed": "7", "explore": 4, stage: blocks * items},
        "schedule": {
            "design": "abba_baab", "block_items": items, "blocks": blocks, "spare_blocks": 1,
        },
        "measurements": ["generation"],
        "limits": {},
    }  # fmt: skip
    if stage == "select":
        values["arms"] = {
            "pristine": arm("pristine"),
            "w0": arm("patched", "ripe", 0),
            "w4": arm("patched", "ripe", 4),
        }
    else:
        values["arms"] = {
            "pristine": arm("pristine"),
            "ripe": arm("patched", "ripe", "selected", patch=["patches/ripe.diff"]),
        }
        values["predictions"] = [prediction()]
        values["selection"] = {
            "from": SELECT,
            "candidates": [{"arm": "w0", "window": 0}, {"arm": "w4", "window": 4}],
            "rule": {"maximize": "speed", "subject_to": [{"metric": "match", "at_least": 0.9}]},
        }
    return check(Plan.model_validate({**values, **changes}))


def simple(name: str, **changes: Any) -> Plan:
    """A confirm plan without a selection."""
    arms = {"pristine": arm("pristine"), "ripe": arm("patched", "ripe", 0)}
    return plan(name, **{"arms": arms, "selection": None, **changes})


def draw(_: Plan, bucket: str, key: str, count: int) -> Sequence[DrawnItem]:
    names = [hashlib.sha256(f"{key}/{n}".encode()).hexdigest() for n in range(count)]
    return [DrawnItem(f"{bucket}-{one[:12]}", one) for one in names]


def figures(lock: Lock, run: RunPaths) -> dict[str, dict[str, Any]]:
    return {
        "pristine": {"speed": 9.0, "match": 1.0},
        "w0": {"speed": 3.0, "match": 0.5},
        "w4": {"speed": 2.0, "match": 0.95},
    }


def project_at(root: Path) -> Project:
    """A project with a model and a patch, and nothing frozen."""
    for name, data in {
        "conf/arm/ripe.yaml": b"policy: ripe\n",
        "models/tiny/weights.bin": bytes(range(256)),
        "patches/ripe.diff": b"--- a\n+++ b\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Project(root)


def composed(project: Project, one: Plan) -> Composed:
    """What composing would give: the plan and its source files, which are written here."""
    path = project.conf / f"{one.plan}.yaml"
    path.write_text(f"title: {one.title!r}\nquestion: {one.question}\n", encoding="utf-8")
    return Composed(one, (path, project.conf / "arm" / "ripe.yaml"))


def inputs(project: Project, **changes: Any) -> Inputs:
    values: dict[str, Any] = {
        "draw": draw,
        "model_files": [project.root / "models" / "tiny" / "weights.bin"],
        "code_files": [Path(harness.__file__).parent / "store" / "clock.py"],
        "figures": figures,
        "device_class": "cpu: test",
    }
    return Inputs(**{**values, **changes})


def freeze_plan(project: Project, one: Plan, **changes: Any) -> FreezeReport:
    return freeze(project, composed(project, one), inputs(project, **changes))


def journal_records(lock: Lock) -> list[Json]:
    """What an honest run of a lock writes."""
    order = order_table(lock.typed_plan(), lock.plan_digest, lock.nonce)
    ids = lock.partitions[lock.stage].ids
    records: list[Json] = [{"kind": "run", "event": "started", "at": CLOCK.utc()}]
    for block in order.planned:
        records.append({"kind": "block", "block": block.block, "event": "started"})
        for visit in block.visits:
            for index in block.items:
                key = {"item": ids[index], "arm": visit.arm, "visit": visit.visit, "attempt": 1}
                records.append({
                    "kind": "trial", "phase": "scored", "key": key, "block": visit.block,
                    "launch": visit.launch, "status": "ok", "token_ids": [1, 2], "text": "4\u2028",
                })  # fmt: skip
            key = {"block": visit.block, "arm": visit.arm, "visit": visit.visit, "attempt": 1}
            records.append({
                "kind": "visit", "phase": "scored", "key": key, "position": visit.position,
                "launch": visit.launch, "status": "ok", "timing": {"decode_ns": 1000},
            })  # fmt: skip
        records.append({"kind": "block", "block": block.block, "event": "finished"})
    return [*records, {"kind": "run", "event": "finished", "at": CLOCK.utc()}]


def start(project: Project, name: str) -> RunPaths:
    """The ledger's start record and the manifest of a registered run."""
    lock, chain = read_lock(project, name), Chain(project.ledger("raven"))
    run = project.run(name, RUNS[name])
    found = lock_digest(project, name)
    body = RunStarted(plan=name, run_id=RUNS[name], role="registered", lock_digest=found)
    start_registered(chain, body)
    create_json(run.manifest, {
        "format": 1, "plan": name, "run_id": RUNS[name], "role": "registered",
        "plan_json": lock.plan_json, "plan_digest": lock.plan_digest, "nonce": lock.nonce,
        "order_digest": lock.order_digest, "lock_digest": found,
    })  # fmt: skip
    return run


def write_journal(run: RunPaths, records: Sequence[Json]) -> None:
    run.journal.unlink(missing_ok=True)
    with FramedLog(run.journal) as log:
        log.append(*({**record, "seq": place} for place, record in enumerate(records)))


def seal_value(project: Project, name: str, run: RunPaths) -> Json:
    table = file_table(run.root, [run.manifest, run.journal])
    return {
        "format": 1, "plan": name, "run_id": run.root.name, "files": table,
        "digest": digest(table), "ledger_head": Chain(project.ledger("raven")).head.json(),
        "lock_digest": lock_digest(project, name), "records": counts(read_framed(run.journal)),
        "sealed_utc": CLOCK.utc(),
    }  # fmt: skip


def analysis(run: RunPaths) -> Json:
    """Stands in for the real analysis: a function of the sealed journal."""
    size = run.journal.stat().st_size
    verdict = {"id": "P1", "word": "held", "estimate": 1.5, "low": 1.25, "high": 2.0}
    return {"format": 1, "verdicts": [verdict], "bytes": str(size)}


def seal(project: Project, name: str, run: RunPaths) -> None:
    """Seal a run, analyse it, and tell the ledger."""
    chain = Chain(project.ledger("raven"))
    create_json(run.seal, seal_value(project, name, run))
    sealed = sha256_file(run.seal)
    totals = Counts(**counts(read_framed(run.journal)))
    append(chain, RunSealed(plan=name, run_id=run.root.name, seal_digest=sealed, records=totals))
    result = analysis(run)
    create_json(run.analysis, result)
    append(chain, Verdicts(
        plan=name, run_id=run.root.name, seal_digest=sealed,
        verdicts=[VerdictEntry(**one) for one in result["verdicts"]],
        analysis_digest=digest(result),
    ))  # fmt: skip
    append(chain, ResultOpened(plan=name, run_id=run.root.name))


def run_plan(project: Project, name: str) -> RunPaths:
    """Run a frozen plan honestly, to the end."""
    run = start(project, name)
    write_journal(run, journal_records(read_lock(project, name)))
    seal(project, name, run)
    return run


def finished_study(root: Path) -> Project:
    """Selection frozen and run, confirmation frozen and run; a ledger of ten records."""
    project = project_at(root)
    freeze_plan(project, plan(SELECT))
    run_plan(project, SELECT)
    freeze_plan(project, plan(CONFIRM))
    run_plan(project, CONFIRM)
    return project
