"""Build an arm's environment from its frozen files: a venv, a lock, a commit, wheels, a diff."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.plan.schema import EnvironmentSpec, GitSource, Plan, SourcePatch
from harness.run.arm_environment import (
    ArmEnvironment,
    environment_of,
    input_folder,
    input_table,
    recipe_environment,
    spec_json,
    tree_table,
)
from harness.run.privacy import scrub
from harness.run.recipe import Recipe, recipe_of
from harness.store.canonical import Json
from harness.store.digests import FileTable, digest
from harness.store.errors import ChangedError, NotReadyError, RefusedError, UsageError
from harness.store.files import create_json, storage_errors
from harness.store.paths import Project

FORMAT = 1
_LIST = (
    "import importlib.metadata as m, json, platform; print(json.dumps([platform.python_version(), "
    "{d.metadata['Name']: d.version for d in m.distributions()}]))"
)
Show = Callable[[str], None]


@dataclass(frozen=True)
class _Order:
    """One environment to build: from what, where, and how messages name it."""

    label: str
    name: str
    spec: EnvironmentSpec
    recipe: Recipe | None
    environment: ArmEnvironment
    files: Path
    inputs: FileTable


def build(project: Project, plan: Plan, arm: str, *, locked: bool, show: Show) -> Json:
    """Build an arm's environment and return its record; `show` gets every command line.

    Raises:
        UsageError: the arm has none of its own. RefusedError: it is built already. NotReadyError: a
        step fails. ChangedError: the outcome is not the tree that the plan expects.
    """
    if arm not in plan.arms:
        raise UsageError(f"{arm}: no such arm; arms are {', '.join(plan.arms)}")
    spec, environment = (
        plan.arms[arm].environment,
        environment_of(project, plan, arm, locked=locked),
    )
    if spec is None or environment is None:
        raise UsageError(f"arms.{arm}.environment: not set, so the arm runs in the harness's own")
    recipe = recipe_of(spec.recipe, plan.model.device) if spec.recipe else None
    files, inputs = (
        input_folder(project, plan, locked=locked),
        input_table(project, plan, spec, locked=locked),
    )
    label = f"arms.{arm}.environment"
    return _build(project, _Order(label, arm, spec, recipe, environment, files, inputs), show)


def build_recipe(project: Project, name: str, device: str, *, show: Show) -> Json:
    """Build the environment that every arm with this recipe alone shares; see `build`."""
    recipe = recipe_of(name, device)
    environment = recipe_environment(project, name, device)
    spec = EnvironmentSpec.model_validate({"recipe": name})
    order = _Order(name, name, spec, recipe, environment, project.root, recipe.table())
    return _build(project, order, show)


def _build(project: Project, order: _Order, show: Show) -> Json:
    spec, environment = order.spec, order.environment
    if environment.record.exists():
        raise RefusedError(f"envs/{environment.root.name}: is built already; remove it first")
    with storage_errors(environment.root):
        shutil.rmtree(environment.root, ignore_errors=True)
        environment.root.mkdir(parents=True)
    _install(project, order, _Runner(order.label, show))
    table = tree_table(environment.site)
    python, packages = _versions(environment)
    record: Json = {
        "format": FORMAT,
        "arm": order.name,
        "spec": spec_json(spec),
        "inputs": order.inputs,
        "python": python,
        "packages": packages,
        "tree": digest(table),
        "files": table,
    }
    if spec.tree is not None and spec.tree != record["tree"]:
        raise ChangedError(
            f"{order.label}: built tree {record['tree'][:12]}…, expected "
            f"{spec.tree[:12]}…; another platform or index gave other files"
        )
    create_json(environment.record, record)
    return record


class _Runner:
    """Runs the steps of one build, each shown first."""

    def __init__(self, label: str, show: Show) -> None:
        self.label, self.show = label, show

    def __call__(self, words: Sequence[str], **more: str) -> None:
        self.show(" ".join(words))
        environment = {**os.environ, **more}
        # Compiled modules are kept, so that an engine's first start is not its slowest.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, env=environment, check=False, timeout=3600
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotReadyError(f"{self.label}: {words[0]}: {error}") from error
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            said = next((line for line in lines if "rror" in line), lines[-1])
            raise NotReadyError(f"{self.label}: {words[0]}: {scrub(said)[:300]}")


def _install(project: Project, order: _Order, run: _Runner) -> None:
    spec, environment, files = order.spec, order.environment, order.files
    run([_interpreter(order.label, spec.python), "-m", "venv", "--without-pip",
         str(environment.root / "venv")])  # fmt: skip
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "install"]
    pip += ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile"]
    if order.recipe:
        order.recipe.install(environment.python, environment.site, pip, run)
    if spec.lock:
        run([*pip, "--require-hashes", "-r", str(files / spec.lock)])
    if spec.git:
        _install_git(project, spec.git, environment, pip, run)
    if spec.wheels:
        wheels = [str(files / wheel) for wheel in spec.wheels]
        run([*pip, "--no-deps", "--no-index", *wheels])
    if spec.source:
        _patch(spec.source, environment, files / spec.source.diff, run)
    environment.wire.mkdir()
    (environment.wire / "harness").symlink_to(Path(harness.__file__).parent)


def _interpreter(label: str, name: str | None) -> str:
    found = sys.executable if name is None else shutil.which(name)
    if found is None:
        raise NotReadyError(f"{label}.python: {name} is not on the path")
    return found


def _install_git(
    project: Project, source: GitSource, environment: ArmEnvironment, pip: list[str], run: _Runner
) -> None:
    local = not source.repository.startswith("https://")
    where = str(project.root / source.repository) if local else source.repository
    with tempfile.TemporaryDirectory(dir=environment.root) as folder:
        run(["git", "clone", "--quiet", "--no-checkout", where, folder])
        run(["git", "-C", folder, "checkout", "--quiet", "--detach", source.revision])
        run([*pip, "--no-deps", folder])


def _patch(source: SourcePatch, environment: ArmEnvironment, diff: Path, run: _Runner) -> None:
    """Apply a diff to the arm's copy of a package; taken from this interpreter's if it lacks it."""
    own = environment.site / source.package
    if not own.exists():
        found = importlib.util.find_spec(source.package)
        if found is None or not found.submodule_search_locations:
            raise NotReadyError(f"{run.label}.source: package {source.package} is not installed")
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(found.submodule_search_locations[0], own, ignore=ignored)
    apply = ["git", "-C", str(environment.site), "apply", "-p1", str(diff)]
    run(apply, GIT_CEILING_DIRECTORIES=str(environment.site.parent), GIT_DIR=os.devnull)


def _versions(environment: ArmEnvironment) -> tuple[str, dict[str, str]]:
    done = subprocess.run(
        [str(environment.python), "-I", "-c", _LIST], capture_output=True, text=True, check=True
    )
    python, packages = json.loads(done.stdout)
    return str(python), dict(sorted(packages.items()))


def differences(left: Json, right: Json) -> list[str]:
    """Return what differs between two built environments: Python, packages, then files."""
    found = []
    if left["python"] != right["python"]:
        found.append(f"python: {left['python']} and {right['python']}")
    packages = sorted({*left["packages"], *right["packages"]})
    for name in packages:
        pair = [one["packages"].get(name, "none") for one in (left, right)]
        if pair[0] != pair[1]:
            found.append(f"{name}: {pair[0]} and {pair[1]}")
    tables: list[FileTable] = [left["files"], right["files"]]
    names = sorted(set(tables[0]) | set(tables[1]))
    changed = [name for name in names if tables[0].get(name) != tables[1].get(name)]
    return found + [f"file {name}" for name in changed]
