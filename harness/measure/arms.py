"""One summary per arm: quality, speed, acceptance, memory, agreement with pristine."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from harness.analysis import Interval, cr2_interval, wilson_interval
from harness.measure import generation, memory
from harness.measure.acceptance import places
from harness.measure.divergence import compare, same_tokens
from harness.measure.scored import Scored
from harness.plan.schema import Plan
from harness.plan.visible import BLIND
from harness.store.canonical import Json


def arm_summaries(plan: Plan, data: Scored, pristine: str, near_tie: float) -> dict[str, Json]:
    """Return a JSON summary per arm; a value that cannot be computed is left out."""
    return {name: _summary(plan, data, name, pristine, near_tie) for name in plan.arms}


def _summary(plan: Plan, data: Scored, arm: str, pristine: str, near_tie: float) -> Json:
    items = data.items_of(data.blocks.quality)
    trials = [trial for item in items if (trial := data.first(item, arm)) is not None]
    visits = data.visits_of(arm, data.blocks.timing)
    summary: Json = {"role": plan.arms[arm].role, "items": len(trials), "visits": len(visits)}
    if trials:
        summary["accuracy"] = share(sum(map(generation.right, trials)), len(trials))
        summary["status"] = _counts(trial["status"] for trial in trials)
        cache = [memory.TRIAL["cache_bytes"](trial) for trial in trials]
        summary["cache_bytes_mean"] = sum(cache) / len(cache)
        summary["agreement_with_pristine"] = compare(data, pristine, arm, items, near_tie)
        summary |= _within(data, arm, items)
    if visits:
        seen = plan.arms[arm].backend not in BLIND
        summary |= _speed(visits, seen=seen) | {"phases": _phases(data, arm) if seen else {}}
    return summary | _drafts(data, arm, items)


def _within(data: Scored, arm: str, items: Collection[str]) -> Json:
    """The arm's own floor of token agreement: its first visit of an item against its second."""
    pairs = [pair for item in items if len(pair := data.trials.get((item, arm), [])) > 1]
    if not pairs:
        return {}
    same = sum(same_tokens(pair[0], pair[1]) for pair in pairs)
    return {"agreement_within": share(same, len(pairs))}


def _counts(words: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def share(k: int, n: int) -> Json:
    """Return k of n with its 95 % Wilson interval."""
    interval = wilson_interval(k, n)
    if not isinstance(interval, Interval):
        return {"k": k, "n": n}
    return {"k": k, "n": n, "share": k / n, "low": interval.low, "high": interval.high}


def _speed(visits: Collection[Json], *, seen: bool) -> Json:
    """Times and rates; `seen`: whether the engine's CPU time is known."""
    totals = {
        name: sum(map(quantity, visits))
        for name, quantity in generation.VISIT.items()
        if not name.endswith("_per_token") and (seen or "_cpu_" not in name)
    }
    tokens = sum(visit["tokens"] for visit in visits)
    summary: Json = dict(totals)
    if tokens and totals["decode_seconds"] > 0:
        summary["tokens"] = tokens
        summary["tokens_per_second"] = tokens / totals["decode_seconds"]
        summary["ms_per_token"] = 1e3 * totals["decode_seconds"] / tokens
    if tokens and seen and totals["decode_seconds"] > 0:
        summary["tokens_per_cpu_second"] = tokens / max(totals["decode_cpu_seconds"], 1e-9)
        summary["cpu_ms_per_token"] = 1e3 * totals["decode_cpu_seconds"] / tokens
    return summary


def mean_log(visits: Collection[Json], name: str) -> float:
    """Return the mean log of a visit quantity."""
    quantity = generation.VISIT[name]
    return math.fsum(math.log(quantity(visit)) for visit in visits) / len(visits)


def _phases(data: Scored, arm: str) -> Json:
    """CPU milliseconds per token of each phase: a geometric mean over blocks with its interval."""
    found: Json = {}
    for phase in generation.PHASES:
        logs = []
        for block in sorted(data.blocks.timing):
            visits = data.visits_of(arm, [block])
            if visits and all(visit["tokens"] for visit in visits):
                tokens = math.fsum(math.log(visit["tokens"]) for visit in visits) / len(visits)
                logs.append(mean_log(visits, f"{phase}_cpu_seconds") - tokens)
        interval = cr2_interval(logs, [1.0] * len(logs)) if len(logs) > 1 else None
        if isinstance(interval, Interval):
            ends = (interval.estimate, interval.low, interval.high)
            low_to_high = dict(zip(("estimate", "low", "high"), ends, strict=True))
            found[phase] = {"ms_per_token": {k: 1e3 * math.exp(v) for k, v in low_to_high.items()}}
    return found


def _drafts(data: Scored, arm: str, items: Collection[str]) -> Json:
    trials = [trial for item in items for trial in data.trials.get((item, arm), [])]
    drafted = sum(map(generation.TRIAL["drafted"], trials))
    if not drafted:
        return {}
    accepted = sum(map(generation.TRIAL["accepted"], trials))
    passes = sum(map(generation.TRIAL["passes"], trials))
    tokens = sum(map(generation.TRIAL["tokens"], trials))
    summary: Json = {"drafted": int(drafted), "accepted": int(accepted)}
    summary["acceptance"] = accepted / drafted
    if passes:
        summary["tokens_per_pass"] = tokens / passes
    by_place = list(places(trials).values())
    if by_place:
        summary["acceptance_by_place"] = by_place
    return summary
