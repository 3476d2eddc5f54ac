"""`harness freeze`: check a plan, apply its selection rule, write the lock. There is no --force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.output import console, note
from harness.cli.parsing import parse_mixed, parser, words_argument
from harness.store.errors import UsageError

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.prereg.freeze import FreezeReport, Inputs
    from harness.prereg.partitions import DrawnItem
    from harness.store.paths import Project


def main(argv: Sequence[str]) -> int:
    """Freeze a plan, or show what freezing it would do."""
    made = parser("freeze", "check a plan and lock it; never overwrites")
    made.add_argument("--dry-run", action="store_true", help="write nothing")
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.plan.compose import compose
    from harness.plan.words import parse_words
    from harness.prereg.freeze import freeze
    from harness.store.paths import find_project

    words = parse_words(args.words)
    if words.overrides:
        raise UsageError(f"{', '.join(words.overrides)}: a frozen plan is its file; edit the file")
    project = find_project()
    composed = compose(project, words.plan)
    if composed.plan.stage == "explore":
        raise UsageError(f"{words.plan}: an explore plan is never frozen; run it as it is")
    report = freeze(
        project,
        composed,
        inputs(project, composed.plan),
        dry_run=args.dry_run,
        announce=lambda program: note(f"  starts {program}"),
    )
    _print(report)
    return 0


def inputs(project: Project, plan: Plan) -> Inputs:
    """Return what a freeze needs from the floors above it."""
    from harness.cli.wiring import code_files, figures, model_files
    from harness.prereg.freeze import Inputs

    return Inputs(
        draw=_draw,
        model_files=model_files(project, plan),
        code_files=code_files(),
        figures=figures,
    )


def _draw(plan: Plan, bucket: str, key: str, count: int) -> list[DrawnItem]:
    from harness.cli.wiring import draw_items
    from harness.prereg.partitions import DrawnItem

    return [DrawnItem(item.id, item.digest) for item in draw_items(plan, bucket, key, count)]


def _print(report: FreezeReport) -> None:
    from rich.table import Table

    out = console()
    if report.selection:
        table = Table(box=None, pad_edge=False, title=f"selection: {report.selection.chosen}")
        wanted = _metrics(report)
        for column in ("rank", "candidate", *wanted, "why not"):
            table.add_column(column, justify="right" if column in wanted else "left")
        for one in report.ranking:
            numbers = (
                f"{one.metrics[name]:.4g}" if name in one.metrics else "–" for name in wanted
            )
            table.add_row(str(one.rank or "–"), one.arm, *numbers, one.reason or "")
        out.print(table)
    out.print(f"plan digest {report.plan_digest}")
    for sentence in report.irrevocable:
        out.print(f"  {sentence}")
    for flag in report.flags:
        out.print(f"  flag: {flag}", markup=False)
    if report.lock is None:
        out.print("dry run: nothing was written")
        return
    out.print(f"frozen: {report.path}, sha256 {report.lock_digest}")
    if report.head:
        out.print(f"ledger head: record {report.head.count}, {report.head.digest}")


def _metrics(report: FreezeReport) -> list[str]:
    rule = report.selection.rule if report.selection else {}
    named = [rule.get("maximize"), rule.get("minimize")]
    named += [bound["metric"] for bound in rule.get("subject_to", [])]
    return [name for name in named if name]
