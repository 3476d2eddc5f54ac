"""`harness selftest`: invariants that must hold on this node before anything is scored."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import console, print_json
from harness.cli.parsing import parse_mixed, parser, words_argument
from harness.store.canonical import Json
from harness.store.errors import Exit

if TYPE_CHECKING:
    from harness.cli.campaign import Campaign
    from harness.plan.schema import Plan
    from harness.run.context import RunItem, WorkerFactory
    from harness.store.paths import Project

PROMPTS = 2


def main(argv: Sequence[str]) -> int:
    """Print one line per check; exit 8 if one of this node's fails, 3 if a lock's does."""
    made = parser("selftest", "invariants on this node; with a plan, its engines' too", json=True)
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.store.paths import find_project

    project = find_project()
    checks = [*_node(), *_locks(project)]
    if args.words:
        checks += _plan_engines(project, args.words)
    if args.json:
        print_json(checks)
    else:
        _print(checks)
    return _exit(checks)


def checks_of(
    campaign: Campaign, start_worker: WorkerFactory, explore: Sequence[RunItem]
) -> Callable[[], list[Json]]:
    """Return the self-test of a run: this node's, and the compared engine's in a worker."""

    def checks() -> list[Json]:
        from harness.backends.table import MODULES
        from harness.plan.order import pair_of
        from harness.run.selftest import engine_checks

        plan, arm = campaign.plan, pair_of(campaign.plan)[1]
        if plan.arms[arm].backend not in MODULES:
            return _node()
        log = campaign.paths.logs / "selftest.err"
        prompts = [item.prompt for item in explore[:PROMPTS]]
        return [*_node(), *engine_checks(plan, arm, start_worker, prompts, log, campaign.nonce)]

    return checks


def _node() -> list[Json]:
    return [*_statistics(), *_storage()]


def _statistics() -> list[Json]:
    """Known answers: Random123's Philox4x64-10 vector, CR2's degrees of freedom, exact tests."""
    import numpy as np

    from harness.analysis import (
        Interval,
        cr2_interval,
        mcnemar,
        philox_block,
        philox_words,
        wilson_interval,
    )

    known = philox_block((0, 0, 0, 0), (0, 0))[0] == 0x16554D9ECA36314C
    numpy_words = [int(word) for word in np.random.Philox(key=7).random_raw(8)]
    sums, sizes = [6.0, 11.0, 9.0, 16.0, 15.0], [3.0, 2.0, 1.0, 4.0, 2.0]
    interval = cr2_interval(sums, sizes)
    df = interval.df if isinstance(interval, Interval) and interval.df is not None else 0.0
    wilson = wilson_interval(50, 50, "0.95")
    low = wilson.low if isinstance(wilson, Interval) else 0.0
    agreed, lost = mcnemar(0, 0).p, mcnemar(0, 5).p
    return [
        _check("philox known answer", known, "Random123's first block"),
        _check(
            "philox stream", numpy_words == philox_words(7, 0, 8), "numpy gives the plan's words"
        ),
        _check("CR2 degrees of freedom", abs(df - 3.2868525896414353) < 1e-9, f"found {df:.10g}"),
        _check("McNemar exact", (agreed, lost) == (1.0, 0.0625), f"p = {agreed:g} and {lost:g}"),
        _check("Wilson at 50 of 50", abs(low - 0.9286524009) < 1e-9, f"found {low:.10g}"),
    ]


def _storage() -> list[Json]:
    """One value has one spelling, and a file table notices one changed byte."""
    from harness.store.canonical import canonical
    from harness.store.digests import check_table, digest, file_table
    from harness.store.errors import ChangedError

    spelled = canonical({"b": 1.0, "a": "é", "c": [1e30, 4.5]})
    expected = '{"a":"é","b":1,"c":[1e+30,4.5]}'.encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(b"harness")
        table = file_table(Path(folder), [path])
        check_table(Path(folder), table)
        path.write_bytes(b"harnesz")
        try:
            check_table(Path(folder), table)
            noticed = False
        except ChangedError:
            noticed = True
    empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    return [
        _check("canonical JSON", spelled == expected and digest({}) == empty, "RFC 8785"),
        _check("file table", noticed, "one changed byte is noticed"),
    ]


def _locks(project: Project) -> list[Json]:
    """Everything that is frozen here still stands as it was frozen."""
    from harness.prereg.verify import verify_lock

    folder = project.root / "preregistrations"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    checks = []
    for name in names:
        if not project.lock(name).is_file():
            continue
        found = [one for one in verify_lock(project, name, "replication") if one.code != Exit.DONE]
        detail = found[0].message if found else "stands as it was frozen"
        checks.append({**_check(f"lock {name}", not found, detail), "lock": True})
    return checks


def _plan_engines(project: Project, words: list[str]) -> list[Json]:
    """Start a worker of every arm of a plan and let it test itself."""
    from harness.cli.wiring import draw_items
    from harness.plan.compose import compose
    from harness.plan.words import parse_words
    from harness.run.launch import local_workers
    from harness.run.selftest import engine_checks

    given = parse_words(words)
    plan: Plan = compose(project, given.plan, given.overrides).plan
    prompts = [item.prompt for item in draw_items(plan, "explore", "selftest", PROMPTS)]
    start = local_workers(plan, project)
    checks: list[Json] = []
    with tempfile.TemporaryDirectory() as folder:
        for arm in plan.arms:
            log = Path(folder) / f"{arm}.err"
            checks += engine_checks(plan, arm, start, prompts, log, "selftest")
    return checks


def _print(checks: list[Json]) -> None:
    for check in checks:
        mark = "[green]ok[/]    " if check["ok"] else "[red]failed[/]"
        detail = f": {check['detail']}" if check["detail"] else ""
        console().print(f"{mark} {check['name']}{detail}")


def _exit(checks: list[Json]) -> int:
    failed = [check for check in checks if not check["ok"]]
    if not failed:
        return Exit.DONE
    return Exit.CHANGED if all(check.get("lock") for check in failed) else Exit.NOT_READY


def _check(name: str, ok: bool, detail: str) -> Json:
    return {"name": name, "ok": ok, "detail": detail}
