"""`harness env create / show`: environments of arms, what they hold and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parse_mixed, parser, words_argument
from harness.store.canonical import Json
from harness.store.errors import Exit

if TYPE_CHECKING:
    from harness.plan.schema import Plan
    from harness.store.paths import Project

_SHOWN = 20


def main(argv: Sequence[str]) -> int:
    """Build an arm's environment, or show those that are built."""
    made = parser("env", "environments of arms: create ARM conf=P, show conf=P", json=True)
    made.add_argument("action", choices=("create", "show"))
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.plan.compose import compose
    from harness.plan.words import parse_words
    from harness.store.errors import UsageError
    from harness.store.paths import find_project

    project = find_project()
    arms = [word for word in args.words if "=" not in word]
    given = parse_words([word for word in args.words if "=" in word])
    plan = compose(project, given.plan, given.overrides).plan
    if args.action == "create":
        if len(arms) != 1:
            raise UsageError("env create: name one arm, then the plan: env create ARM conf=PLAN")
        _create(project, plan, arms[0])
    _show(project, plan, as_json=args.json)
    return Exit.DONE


def _create(project: Project, plan: Plan, arm: str) -> None:
    from harness.run.env_build import build

    locked = project.lock(plan.plan).is_file()
    record = build(project, plan, arm, locked=locked, show=lambda line: note(f"  {line}"))
    note(f"built; to freeze the outcome too: arms.{arm}.environment.tree: {record['tree']}")


def _show(project: Project, plan: Plan, *, as_json: bool) -> None:
    built = _built(project, plan)
    if as_json:
        print_json({arm: _facts(record) for arm, record in built.items()})
        return
    out = console()
    for arm in plan.arms:
        if plan.arms[arm].environment is None:
            out.print(f"{arm}: the harness's own environment")
        elif arm not in built:
            out.print(f"{arm}: not built; `harness env create {arm} conf={plan.plan}`")
        else:
            one = built[arm]
            out.print(
                f"{arm}: python {one['python']}, {len(one['packages'])} packages, "
                f"{len(one['files'])} files, tree {one['tree'][:12]}"
            )
    _print_differences(built)


def _print_differences(built: dict[str, Json]) -> None:
    from harness.run.env_build import differences

    names = list(built)
    for name in names[1:]:
        found = differences(built[names[0]], built[name])
        console().print(f"{names[0]} and {name} differ in {len(found)} places")
        for line in found[:_SHOWN]:
            console().print(f"  {line}", markup=False)
        if len(found) > _SHOWN:
            console().print(f"  and {len(found) - _SHOWN} more")


def _built(project: Project, plan: Plan) -> dict[str, Json]:
    from harness.run.arm_environment import environment_of
    from harness.store.files import read_json

    locked = project.lock(plan.plan).is_file()
    found: dict[str, Json] = {}
    for arm in plan.arms:
        environment = environment_of(project, plan, arm, locked=locked)
        if environment is not None and environment.record.is_file():
            found[arm] = read_json(environment.record)
    return found


def _facts(record: dict[str, Any]) -> Json:
    return {name: record[name] for name in ("python", "packages", "tree", "spec")}
