"""An arm's own environment: where it lies, what it holds, and that it is still that."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.plan.checks import environment_files
from harness.plan.schema import EnvironmentSpec, Plan
from harness.run.recipe import recipe_of
from harness.store.canonical import Json
from harness.store.digests import FileTable, digest, file_table, walk
from harness.store.errors import ChangedError, NotReadyError
from harness.store.files import read_json
from harness.store.paths import Project

IGNORED = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files of an installation that name the machine or the moment, but run nothing."""
Prover = Callable[[str], Json | None]
"""Arm → what its environment holds, checked now; None where the arm has none of its own."""


@dataclass(frozen=True)
class ArmEnvironment:
    """The folder of one environment; its name follows from what it is built from."""

    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "venv" / "bin" / "python"

    @property
    def wire(self) -> Path:
        """A folder that holds the harness's package and nothing else, for workers of ours."""
        return self.root / "wire"

    @property
    def record(self) -> Path:
        """What was built."""
        return self.root / "environment.json"

    @property
    def site(self) -> Path:
        """Where its packages lie."""
        return next((self.root / "venv" / "lib").glob("python*/site-packages"))


def environment_of(
    project: Project, plan: Plan, arm: str, *, locked: bool
) -> ArmEnvironment | None:
    """Return where an arm's environment lies, built or not; None where it has none of its own."""
    spec = plan.arms[arm].environment
    if spec is None:
        return None
    inputs = input_table(project, plan, spec, locked=locked)
    return _named(project, spec, inputs, spec.recipe or arm)


def recipe_environment(project: Project, name: str, device: str) -> ArmEnvironment:
    """Return where the environment of a recipe lies that no plan adds anything to."""
    spec = EnvironmentSpec.model_validate({"recipe": name})
    return _named(project, spec, recipe_of(name, device).table(), name)


def _named(project: Project, spec: EnvironmentSpec, inputs: FileTable, name: str) -> ArmEnvironment:
    named = {"spec": spec_json(spec), "inputs": inputs}
    return ArmEnvironment(project.environments / f"{name}-{digest(named)[:12]}")


def spec_json(spec: EnvironmentSpec) -> Json:
    """Return what an environment is built from; the expected outcome is no part of it."""
    values: Json = spec.model_dump(mode="json", exclude_none=True, exclude={"tree"})
    return values


def input_folder(project: Project, plan: Plan, *, locked: bool) -> Path:
    """Return where a plan's patch files lie: in the project, or in the copies made at freeze."""
    return project.prereg(plan.plan) / "patch" if locked else project.root


def input_table(project: Project, plan: Plan, spec: EnvironmentSpec, *, locked: bool) -> FileTable:
    """Return the table of the files that an environment is built from."""
    folder = input_folder(project, plan, locked=locked)
    table = file_table(folder, [folder / name for name in environment_files(spec)])
    return table | recipe_of(spec.recipe, plan.model.device).table() if spec.recipe else table


def tree_table(site: Path) -> FileTable:
    """Return the table of an environment's packages, without compiled and machine-bound files."""
    kept = (
        path
        for path in walk(site)
        if path.suffix != ".pyc" and path.name not in IGNORED and "__pycache__" not in path.parts
    )
    return file_table(site, kept)


def prover(project: Project, plan: Plan, *, locked: bool) -> Prover:
    """Return a check of arms' environments; files are hashed again only once they were touched."""
    proven: dict[str, tuple[int, Json]] = {}

    def prove(arm: str) -> Json | None:
        environment = environment_of(project, plan, arm, locked=locked)
        if environment is None:
            return None
        if not environment.record.is_file():
            raise NotReadyError(f"arms.{arm}.environment: not built; `{how_to_build(plan, arm)}`")
        stamp = _stamp(environment.site)
        if arm not in proven or proven[arm][0] != stamp:
            proven[arm] = (stamp, _checked(plan, arm, environment))
        return proven[arm][1]

    return prove


def how_to_build(plan: Plan, arm: str) -> str:
    """Return the command that builds an arm's environment."""
    spec = plan.arms[arm].environment
    shipped = spec is not None and spec_json(spec) == {"recipe": spec.recipe}
    if not shipped or spec is None:
        return f"harness env create {arm} conf={plan.plan}"
    device = " --device cuda" if plan.model.device == "cuda" else ""
    return f"harness env create {spec.recipe}{device}"


def _checked(plan: Plan, arm: str, environment: ArmEnvironment) -> Json:
    record: dict[str, Any] = read_json(environment.record)
    found, spec = digest(tree_table(environment.site)), plan.arms[arm].environment
    wanted = {"its own record": record["tree"]}
    if spec is not None and spec.tree is not None:
        wanted["the plan"] = spec.tree
    for source, tree in wanted.items():
        if found != tree:
            raise ChangedError(
                f"arms.{arm}.environment: tree {found[:12]}…, expected {tree[:12]}… by {source}; "
                f"build it again: remove envs/{environment.root.name}, then `harness env create`"
            )
    return {name: record[name] for name in ("python", "packages", "tree")}


def _stamp(site: Path) -> int:
    """Return a number that changes whenever a file is written, added or removed."""
    total = 0
    for folder, _, names in os.walk(site):
        if not folder.endswith("__pycache__"):
            stats = ((Path(folder) / name).lstat() for name in names)
            total += sum(hash((s.st_mtime_ns, s.st_size, s.st_ino)) for s in stats)
    return total
