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
    """Build an arm's or an engine's environment, or show those that are built."""
    made = parser("env", "environments: create ENGINE, create ARM conf=P, show conf=P", json=True)
    made.add_argument("action", choices=("create", "show"))
    made.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for an ENGINE")
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.run.recipe import NAMES
    from harness.store.errors import UsageError
    from harness.store.paths import find_project

    project = find_project()
    names = [word for word in args.words if "=" not in word]
    settings = [word for word in args.words if "=" in word]
    if args.action == "create" and len(names) != 1:
        raise UsageError(
            f"env create: name one engine ({', '.join(NAMES)}), or one arm and its plan: "
            "env create ARM conf=PLAN"
        )
    if args.action == "create" and not settings and names[0] in NAMES:
        _create_recipe(project, names[0], args.device)
        return Exit.DONE
    plan = _plan(project, settings)
    if args.action == "create":
        _create(project, plan, names[0])
    _show(project, plan, as_json=args.json)
    return Exit.DONE


def _plan(project: Project, settings: list[str]) -> Plan:
    from harness.plan.compose import compose
    from harness.plan.words import parse_words

    given = parse_words(settings)
    return compose(project, given.plan, given.overrides).plan


def _create_recipe(project: Project, name: str, device: str) -> None:
    from harness.run.env_build import build_recipe

    record = build_recipe(project, name, device, show=lambda line: note(f"  {line}"))
    console().print(
        f"{name}: python {record['python']}, {len(record['packages'])} packages, "
        f"{len(record['files'])} files, tree {record['tree'][:12]}"
    )


def _create(project: Project, plan: Plan, arm: str) -> None:
    from harness.run.env_build import build

    locked = project.lock(plan.plan).is_file()
    record = build(project, plan, arm, locked=locked, show=lambda line: note(f"  {line}"))
    note(f"built; to freeze the outcome too: arms.{arm}.environment.tree: {record['tree']}")


def _show(project: Project, plan: Plan, *, as_json: bool) -> None:
    from harness.run.arm_environment import how_to_build

    built = _built(project, plan)
    if as_json:
        print_json({arm: _facts(record) for arm, record in built.items()})
        return
    out = console()
    for arm in plan.arms:
        if plan.arms[arm].environment is None:
            out.print(f"{arm}: the harness's own environment")
        elif arm not in built:
            out.print(f"{arm}: not built; `{how_to_build(plan, arm)}`")
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
