"""Invariants that must hold on this node before anything is scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness.store.canonical import Json

if TYPE_CHECKING:
    from harness.cli.campaign import Campaign
    from harness.run.context import RunItem, WorkerFactory

PROMPTS = 2


def checks_of(
    campaign: Campaign, start_worker: WorkerFactory, explore: Sequence[RunItem]
) -> Callable[[], list[Json]]:
    """Return the self-test of a run: statistics here, the engine's invariants in a worker."""

    def checks() -> list[Json]:
        return [*_statistics(), *_engine(campaign, start_worker, explore)]

    return checks


def _statistics() -> list[Json]:
    """Known answers: Random123's Philox4x64-10 vector, and CR2's degrees of freedom."""
    import numpy as np

    from harness.analysis import Interval, cr2_interval, philox_block, philox_words

    known = philox_block((0, 0, 0, 0), (0, 0))[0] == 0x16554D9ECA36314C
    numpy_words = [int(word) for word in np.random.Philox(key=7).random_raw(8)]
    sums, sizes = [6.0, 11.0, 9.0, 16.0, 15.0], [3.0, 2.0, 1.0, 4.0, 2.0]
    interval = cr2_interval(sums, sizes)
    df = interval.df if isinstance(interval, Interval) and interval.df is not None else 0.0
    return [
        _check("philox known answer", known, "Random123's first block"),
        _check(
            "philox stream", numpy_words == philox_words(7, 0, 8), "numpy gives the plan's words"
        ),
        _check("CR2 degrees of freedom", abs(df - 3.2868525896414353) < 1e-9, f"found {df:.10g}"),
    ]


def _check(name: str, ok: bool, detail: str) -> Json:
    return {"name": name, "ok": ok, "detail": detail}


def _engine(
    campaign: Campaign, start_worker: WorkerFactory, explore: Sequence[RunItem]
) -> list[Json]:
    """Ask a worker of the compared arm to test itself, where its engine can."""
    from harness.plan.digest import plan_json
    from harness.plan.order import pair_of

    arm = pair_of(campaign.plan)[1]
    if campaign.plan.arms[arm].backend != "looped":
        return []
    plan: Any = plan_json(campaign.plan)
    worker = start_worker(arm, campaign.paths.logs / "selftest.err")
    limit = campaign.plan.limits.start_timeout_s
    hello = {
        "op": "hello",
        "protocol": 1,
        "arm": plan["arms"][arm],
        "model": plan["model"],
        "task": plan["task"],
        "threads": campaign.plan.schedule.threads,
        "seed": campaign.nonce,
    }
    try:
        worker.request(hello, limit)
        prompts = [item.prompt for item in explore[:PROMPTS]]
        reply = worker.request({"op": "selftest", "prompts": prompts}, limit)
    finally:
        worker.close()
    found: list[Json] = reply["checks"]
    return found
