"""Arms in environments of their own: built from a wheel, a lock, a commit and a diff, offline."""

from __future__ import annotations

import difflib
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.store.framed import scan
from tests.cli.study import harness, ok
from tests.run.bench import kinds
from tests.run.drill import ROOT

ENGINE = (ROOT / "examples" / "own_engine.py").read_text("utf-8")
MODULE = (
    ENGINE.replace('"fingerprint": None', '"fingerprint": [-1.0]')
    .replace('state["patched"] = request["arm"]["role"] == "patched"', 'state["patched"] = FAST')
    .replace("import json\n", "import json\nFAST = False\n", 1)
)


def diff_of(before: str, after: str) -> str:
    names = ("a/tinyengine/__main__.py", "b/tinyengine/__main__.py")
    lines = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(*lines, *names))


FAST = diff_of(MODULE, MODULE.replace("FAST = False", "FAST = True"))
OTHER = diff_of(MODULE.replace("FAST", "SLOW"), MODULE.replace("FAST = False", "FAST = True"))
BACKEND = """
import zipfile, pathlib
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tinyengine-2.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as made:
        made.write("engine.py", "tinyengine/__main__.py")
        made.writestr("tinyengine/__init__.py", "")
        made.writestr("tinyengine-2.0.dist-info/METADATA",
                      "Metadata-Version: 2.1\\nName: tinyengine\\nVersion: 2.0\\n")
        made.writestr("tinyengine-2.0.dist-info/WHEEL",
                      "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr("tinyengine-2.0.dist-info/RECORD", "")
    return name
"""
PLAN = """
study: toy
stage: explore
question: own_environments
title: an engine against a patched copy of itself
model: {{name: none, loops: 1}}
task: {{max_tokens: 8}}
partitions: {{source: arithmetic, seed: toy, explore: 8}}
arms:
  pristine:
    role: pristine
    backend: process
    options: {{command: [python, -m, tinyengine]}}
    patch: [parts/{wheel}]
    environment: {{wheels: [parts/{wheel}]}}
  patched:
    role: patched
    backend: process
    options: {{command: [python, -m, tinyengine]}}
    patch: [parts/lock.txt, parts/fast.diff]
    environment: {{lock: parts/lock.txt, source: {{package: tinyengine, diff: parts/fast.diff}}}}
schedule: {{design: abba_baab, block_items: 2, blocks: 4, launches_per_arm: 2, warmup_visits: 1}}
measurements: [generation]
limits: {{}}
"""
WHEEL = "tinyengine-1.0-py3-none-any.whl"


def make_wheel(folder: Path) -> Path:
    path = folder / WHEEL
    info = "tinyengine-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("tinyengine/__init__.py", "")
        made.writestr("tinyengine/__main__.py", MODULE)
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinyengine\nVersion: 1.0\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose two arms are built."""
    folder = tmp_path_factory.mktemp("own")
    parts = folder / "parts"
    parts.mkdir()
    wheel = make_wheel(parts)
    sha = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = f"--no-index\n--find-links {parts}\ntinyengine==1.0 --hash=sha256:{sha}\n"
    (parts / "lock.txt").write_text(lock)
    (parts / "fast.diff").write_text(FAST)
    (folder / "conf").mkdir()
    (folder / "conf" / "own.yaml").write_text(PLAN.format(wheel=WHEEL))
    missing = harness(folder, "run", "conf=own")
    assert missing.code == 8, missing.err
    assert "arms.pristine.environment: not built; `harness env create pristine" in missing.err
    for arm in ("pristine", "patched"):
        built = ok(folder, "env", "create", arm, "conf=own")
        assert "environment.tree: " in built.err
    return folder


def test_arms_run_in_their_own_environments_and_prove_the_patch(project: Path) -> None:
    ok(project, "run", "conf=own")
    log = sorted((project / "runs" / "own").glob("*/journal.log"))[-1]
    ready = kinds(scan(log).records, "launch", event="ready")
    trees = {r["arm"]: r["info"]["environment"]["tree"] for r in ready}
    assert len(set(trees.values())) == 2
    assert all(r["info"]["environment"]["packages"] == {"tinyengine": "1.0"} for r in ready)
    visits = kinds(scan(log).records, "visit", phase="scored", arm="patched")
    assert all(v["patch_counters"]["upper"] > 0 for v in visits)


def test_what_differs_between_the_arms_is_shown(project: Path) -> None:
    out = ok(project, "env", "show", "conf=own").out
    assert "pristine and patched differ in 1 places" in out
    assert "file tinyengine/__main__.py" in out
    facts = json.loads(ok(project, "env", "show", "conf=own", "--json").out)
    assert facts["patched"]["spec"]["source"]["package"] == "tinyengine"


def test_an_environment_that_changed_is_refused_with_both_trees(project: Path) -> None:
    (path,) = project.glob("envs/patched-*/venv/lib/python*/site-packages/tinyengine/__main__.py")
    before = path.read_text()
    path.write_text(before.replace("FAST = True", "FAST = False"))
    result = harness(project, "run", "conf=own", "title=again")
    path.write_text(before)
    assert result.code == 3
    assert "arms.patched.environment: tree" in result.err
    assert "by its own record" in result.err


def test_a_tree_that_the_plan_expects_is_held_to(project: Path) -> None:
    conf = project / "conf" / "own.yaml"
    text = conf.read_text()
    expected = "a" * 64
    other = text.replace("environment: {wheels", f"environment: {{tree: '{expected}', wheels")
    (project / "conf" / "held.yaml").write_text(other)
    result = harness(project, "run", "conf=held")
    assert result.code == 3
    assert "expected aaaaaaaaaaaa… by the plan" in result.err


def test_building_twice_is_refused(project: Path) -> None:
    assert harness(project, "env", "create", "patched", "conf=own").code == 5


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["create", "conf=own"], 2, "one arm and its plan"),
        (["create", "nobody", "conf=own"], 2, "no such arm; arms are pristine, patched"),
    ],
)
def test_mistakes_are_one_line(project: Path, words: list[str], code: int, text: str) -> None:
    result = harness(project, "env", *words)
    assert (result.code, result.err.count("\n")) == (code, 1)
    assert text in result.err


def edited(project: Path, name: str, *changes: tuple[str, str]) -> None:
    text = (project / "conf" / "own.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (project / "conf" / f"{name}.yaml").write_text(text)


def test_a_diff_that_does_not_apply_is_named(project: Path) -> None:
    (project / "parts" / "bad.diff").write_text(OTHER)
    edited(project, "bad", ("fast.diff", "bad.diff"))
    result = harness(project, "env", "create", "patched", "conf=bad")
    assert result.code == 8
    assert "arms.patched.environment: git: error: patch failed" in result.err


def test_a_file_that_is_not_frozen_is_refused(project: Path) -> None:
    edited(project, "loose", ("[parts/lock.txt, parts/fast.diff]", "[parts/lock.txt]"))
    result = harness(project, "env", "show", "conf=loose")
    assert result.code == 2
    assert "parts/fast.diff is not in patch; list it there" in result.err


@pytest.mark.slow
def test_a_commit_is_installed(project: Path) -> None:
    source = project / "engine"
    source.mkdir()
    (source / "engine.py").write_text(MODULE)
    (source / "backend.py").write_text(BACKEND)
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    git: list[Any] = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "engine"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    spec = f"{{git: {{repository: engine, revision: '{head.stdout.strip()}'}}}}"
    edited(project, "commit", (f"{{wheels: [parts/{WHEEL}]}}", spec))
    ok(project, "env", "create", "pristine", "conf=commit")
    out = ok(project, "env", "show", "conf=commit").out
    assert "tinyengine: 2.0 and 1.0" in out


@pytest.mark.slow
def test_a_worker_of_ours_runs_in_a_foreign_environment_and_sees_nothing_else(
    project: Path,
) -> None:
    fake = ("backend: process\n    options: {command: [python, -m, tinyengine]}", "backend: fake")
    edited(project, "fake", fake)
    for arm in ("pristine", "patched"):
        if not list(project.glob(f"envs/{arm}-*")):
            ok(project, "env", "create", arm, "conf=fake")
    ok(project, "run", "conf=fake")
    log = sorted((project / "runs" / "fake").glob("*/journal.log"))[-1]
    ready = kinds(scan(log).records, "launch", event="ready")
    assert {r["info"]["backend"] for r in ready} == {"fake"}
    python = next(project.glob("envs/pristine-*/venv/bin/python"))
    wire = python.parent.parent.parent / "wire"
    done = subprocess.run(
        [str(python), "-c", "import harness.run.worker, tinyengine; import numpy"],
        env={"PYTHONPATH": str(wire)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "No module named 'numpy'" in done.stderr
