"""`harness show`: the composed plan, its digest, order, cost and what it can decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, print_json
from harness.cli.parsing import parse_mixed, parser, words_argument

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.store.paths import Project


def main(argv: Sequence[str]) -> int:
    """Print a plan as it would be hashed."""
    made = parser("show", "the composed plan, its digest, order, cost and power", json=True)
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.plan.compose import compose
    from harness.plan.digest import plan_digest, plan_json
    from harness.plan.words import parse_words
    from harness.store.paths import find_project

    words = parse_words(args.words)
    project = find_project()
    composed = compose(project, words.plan, words.overrides)
    attempt = attempt_at(project, composed.plan)
    facts = {
        "plan": plan_json(composed.plan),
        "digest": plan_digest(composed.plan),
        "sources": [project.relative(path) for path in composed.sources],
        "frozen": project.lock(words.plan).is_file(),
        "attempt": attempt,
        "cost": cost(project, composed.plan),
        "order": order(composed.plan),
        "predictions": decisions(composed.plan, attempt),
        "power": power(composed.plan),
    }
    if args.json:
        print_json(facts)
    else:
        _print(facts)
    return 0


def cost(project: Project, plan: Plan) -> dict[str, Any]:
    """Return counts that follow from the plan, and the time its last finished run took."""
    from harness.cli.runs import last_run_s

    schedule = plan.schedule
    visits = len(example_row(plan))
    return {
        "blocks": schedule.blocks,
        "visits": schedule.blocks * visits,
        "trials": schedule.blocks * visits * schedule.block_items,
        "launches": schedule.launches_per_arm * len(plan.arms),
        "longest_possible_s": schedule.blocks * visits * plan.limits.block_timeout_s,
        "last_run_s": last_run_s(project, plan.plan),
    }


def example_row(plan: Plan) -> list[str]:
    """Return the arms of the first block under a nonce of zeros."""
    from harness.plan.order import order_table

    table = order_table(plan, "0" * 64, "0" * 64)
    return [visit.arm for visit in table.blocks[0].visits]


def order(plan: Plan) -> dict[str, int]:
    """Return how often each order of arms occurs; which block gets which is drawn at freeze."""
    from harness.plan.order import order_table

    table = order_table(plan, "0" * 64, "0" * 64)
    rows = Counter(" ".join(visit.arm for visit in block.visits) for block in table.planned)
    return dict(sorted(rows.items()))


def attempt_at(project: Project, plan: Plan) -> int:
    """Return which attempt at its question the plan is, by its lock, or would be if frozen now."""
    from harness.ledger.chain import Chain
    from harness.ledger.records import history
    from harness.prereg.lock import read_lock

    if project.lock(plan.plan).is_file():
        return read_lock(project, plan.plan).attempt
    seen = history(Chain(project.ledger(plan.study)).intact())
    return len(seen.locks_of(plan.question)) + 1


def decisions(plan: Plan, attempt: int) -> list[dict[str, Any]]:
    """Return each prediction with the level it is decided at in this attempt."""
    from harness.measure.chance import chance_if_no_effect
    from harness.plan.predictions import confidence_level

    return [
        {
            "id": prediction.id,
            "claim": prediction.claim,
            "family": prediction.family,
            "region": list(prediction.region),
            "level": confidence_level(plan, prediction, attempt),
            "min_clusters": prediction.min_clusters,
            "author_confidence": prediction.confidence,
            "chance_if_no_effect": chance_if_no_effect(plan, prediction, attempt),
        }
        for prediction in plan.predictions
    ]


def power(plan: Plan) -> list[str]:
    """Return what the planned number of items can show of a loss of accuracy."""
    from harness.analysis import detectable_margin

    items = plan.schedule.blocks * plan.schedule.block_items
    return [
        f"{share:.0%} of answers change sides: a margin of "
        f"{100 * detectable_margin(share, items):.1f} points"
        for share in (0.01, 0.02, 0.04)
    ]


def _print(facts: dict[str, Any]) -> None:
    from omegaconf import OmegaConf
    from rich.table import Table

    out = console()
    out.print(OmegaConf.to_yaml(OmegaConf.create(facts["plan"])), markup=False)
    out.print(f"digest   {facts['digest']}{'' if facts['frozen'] else '  (not frozen)'}")
    unless = "" if facts["frozen"] else ", if it were frozen now"
    out.print(f"attempt  {facts['attempt']} on {facts['plan']['question']}{unless}")
    out.print(f"sources  {', '.join(facts['sources'])}")
    spent = facts["cost"]
    last = f"; the last run took {spent['last_run_s']:.0f} s" if spent["last_run_s"] else ""
    out.print(
        f"cost     {spent['blocks']} blocks, {spent['visits']} visits, {spent['trials']} trials, "
        f"{spent['launches']} process launches{last}"
    )
    out.print("order    " + "; ".join(f"{n} × {row}" for row, n in facts["order"].items()))
    out.print(
        "power    with 90 % power (one-sided 2.5 %), where " + "; where ".join(facts["power"])
    )
    table = Table(box=None, pad_edge=False)
    for column in (
        "prediction",
        "claim",
        "region",
        "family",
        "interval",
        "P(held)",
        "if no effect",
    ):
        table.add_column(column)
    for row in facts["predictions"]:
        region = " to ".join("…" if end is None else f"{end:g}" for end in row["region"])
        table.add_row(
            row["id"],
            row["claim"],
            region,
            row["family"],
            f"{100 * float(row['level']):g} %",
            f"{row['author_confidence']:g}",
            _chance(row["chance_if_no_effect"]),
        )
    out.print(table)


def _chance(value: float | None) -> str:
    """The chance of holding if the arms did not differ; a dash for a claim about one arm."""
    return "–" if value is None else f"{100 * value:.3g} %"
