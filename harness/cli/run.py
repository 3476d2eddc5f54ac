"""`harness run`: verify the lock, self-test, measure, seal, analyse, record, report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parse_mixed, parser, words_argument
from harness.store.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.cli.campaign import Campaign
    from harness.run.context import Progress, RunContext
    from harness.store.canonical import Json


def main(argv: Sequence[str]) -> int:
    """Run a plan from wherever it stands to its verdicts."""
    made = parser("run", "run a plan; the same command resumes it", json=True)
    made.add_argument(
        "--strict", action="store_true", help="exit 11 unless every prediction held as it must"
    )
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.cli.campaign import enlist
    from harness.plan.words import parse_words
    from harness.run.supervisor import execute
    from harness.store.paths import find_project

    words = parse_words(args.words)
    project = find_project()
    campaign = enlist(project, words)
    _announce(campaign)
    began = time.monotonic()
    with _progress() as show:
        outcome = execute(context(campaign, show))
    analysis, files = _concluded(campaign)
    page = next(project.relative(path) for path in files if path.suffix == ".html")
    if args.json:
        print_json({"analysis": analysis, "report": page})
    else:
        _conclusion(campaign, analysis, page, time.monotonic() - began)
    if outcome.timing_void:
        note(f"timing predictions are void: {outcome.timing_void}")
    return _exit(analysis, args.strict)


def _concluded(campaign: Campaign) -> tuple[Json, list[Path]]:
    """Seal, judge and report, stoppable like the run itself."""
    from harness.cli.conclude import conclude
    from harness.run.interrupts import Interrupts
    from harness.store.errors import StoppedError

    try:
        with Interrupts():
            return conclude(campaign)
    except StoppedError:
        if not campaign.paths.analysis.exists():
            raise
        root = campaign.project.relative(campaign.paths.root)
        raise StoppedError(
            f"stopped; the run is sealed and judged, and `harness report {root}` writes its report"
        ) from None


def context(campaign: Campaign, show: Callable[[Progress], None]) -> RunContext:
    """Return everything that the runner needs."""
    from harness.cli.selftest import checks_of
    from harness.cli.wiring import aa_interval, score, scored_items
    from harness.run.arm_environment import prover
    from harness.run.context import RunContext
    from harness.run.frozen import frozen_files
    from harness.run.launch import local_workers

    items, explore = scored_items(campaign.plan, campaign.nonce)
    workers = local_workers(campaign.plan, campaign.project, locked=campaign.lock is not None)
    return RunContext(
        project=campaign.project,
        plan=campaign.plan,
        paths=campaign.paths,
        order=campaign.order,
        items=items,
        explore=explore,
        score=score,
        start_worker=workers,
        aa_interval=aa_interval,
        seed=campaign.nonce,
        role=campaign.role,
        environment=prover(campaign.project, campaign.plan, locked=campaign.lock is not None),
        unchanged=frozen_files(campaign.project, campaign.lock),
        selftest=checks_of(campaign, workers, explore),
        progress=show,
    )


def _announce(campaign: Campaign) -> None:
    from harness.run.launch import command_lines

    what = "resuming" if campaign.resumed else "starting"
    note(f"{what} {campaign.role} run {campaign.paths.root.name} of {campaign.plan.plan}")
    for sentence in differences(campaign.remarks):
        note(f"  {sentence}")
    programs: dict[str, list[str]] = {}
    lines = command_lines(campaign.plan, campaign.project, locked=campaign.lock is not None)
    for name, words in lines.items():
        programs.setdefault(" ".join(words), []).append(name)
    for program, arms in programs.items():
        note(f"  starts {program}  for {', '.join(arms)}")


def differences(remarks: Sequence[str]) -> list[str]:
    """Return what differs from the lock without forbidding the run, a sentence per kind."""
    code = [remark for remark in remarks if remark.startswith("harness/")]
    versions = [remark for remark in remarks if remark.startswith("environment: ")]
    other = [remark for remark in remarks if remark not in code and remark not in versions]
    sentences = []
    if code:
        sentences.append(f"{len(code)} code files are not those of the lock: a later version")
    if versions:
        sentences.append(f"{len(versions)} versions differ from the lock: {versions[0][13:]} …")
    sentences += other[:3]
    return [*sentences, "all of it stands in the run's manifest"] if remarks else []


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on a terminal, and a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    err = Console(stderr=True)
    if not err.is_terminal:
        yield _lines()
        return
    text = TextColumn("{task.description:<28}")
    columns = (text, BarColumn(), MofNCompleteColumn(), TextColumn("visits"), TimeLeft())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("starting", total=None)

        def show(step: Any) -> None:
            bar.update(task, total=step.total, completed=step.done, description=step.text)

        yield show


def _lines(every_s: float = 15.0) -> Callable[[Progress], None]:
    last = 0.0

    def show(step: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            sys.stderr.write(f"  {step.done}/{step.total} visits: {step.text}\n")

    return show


def _conclusion(campaign: Campaign, analysis: dict[str, Any], page: str, seconds: float) -> None:
    from harness.plan.digest import plan_json
    from harness.report.tables import verdict_table

    out = console()
    out.print()
    out.print(f"[bold]{campaign.plan.title}[/]")
    out.print(verdict_table(analysis, plan_json(campaign.plan)))
    out.print(scope_line(analysis))
    out.print(f"{seconds:.0f} s; report: {page}")


def scope_line(analysis: dict[str, Any]) -> str:
    """Return what the verdicts are about, and what they rest on."""
    from harness.report.scope import anchor_words, attempt_words, role_words

    scope = analysis["scope"]
    facts = [", ".join(str(scope[name]) for name in ("model", "source", "device_class"))]
    if analysis["role"] != "unregistered":
        facts.append(f"{attempt_words(analysis)}, {anchor_words(scope.get('anchored'))}")
    return "; ".join([*facts, role_words(analysis)])


def _exit(analysis: dict[str, Any], strict: bool) -> int:
    words = [(one["word"], one.get("expected") or "held") for one in analysis["verdicts"]]
    if words and all(word == "void" for word, _ in words):
        return Exit.VOID
    if analysis.get("exit_code"):
        return int(analysis["exit_code"])
    if strict and any(word != expected for word, expected in words):
        return Exit.PREDICTION_FAILED
    return Exit.DONE
