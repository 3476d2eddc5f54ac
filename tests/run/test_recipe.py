"""The environment that ships as a recipe: its lock, its name, and its stand-ins."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.plan.compose import compose
from harness.run.arm_environment import environment_of, how_to_build, prover, recipe_environment
from harness.run.recipe import recipe_of
from harness.store.errors import NotReadyError, UsageError
from harness.store.paths import Project
from tests.cli.study import harness

PLAN = """
study: toy
stage: explore
question: an_engine
title: an engine and its patched self
model: {{name: none, loops: 1, device: {device}}}
task: {{max_tokens: 8}}
partitions: {{source: arithmetic, seed: toy, explore: 4}}
arms:
  pristine: {{role: pristine, backend: fake, environment: {{recipe: sglang}}}}
  patched: {{role: patched, backend: fake, environment: {{recipe: sglang}}}}
  other: {{role: control, backend: fake, environment: {{recipe: sglang, python: python3.11}}}}
schedule: {{design: abba_baab, block_items: 2, blocks: 2}}
measurements: [generation]
limits: {{}}
"""


def project(folder: Path, device: str = "cpu") -> tuple[Project, Any]:
    (folder / "conf").mkdir()
    (folder / "conf" / "toy.yaml").write_text(PLAN.format(device=device), "utf-8")
    found = Project(folder)
    return found, compose(found, "toy", []).plan


def entries(lock: Path) -> dict[str, list[str]]:
    text = lock.read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split()[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})", line) for line in lines}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_package_is_pinned_and_hashed(device: str) -> None:
    found = entries(recipe_of("sglang", device).lock)
    assert len(found) > 90
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^=\s]+", name) for name in found)
    assert all(found.values()), "a package without a hash"
    assert any(name.startswith("sglang==") for name in found)


def test_the_cpu_recipe_leaves_out_what_weighs_and_never_runs() -> None:
    names = {name.split("==")[0] for name in entries(recipe_of("sglang", "cpu").lock)}
    assert not names & {"torch", "triton", "sglang-kernel", "flashinfer-python"}
    assert not any(name.startswith("nvidia") for name in names)


def test_torch_is_the_one_that_the_project_itself_installs() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    found = re.search(r"^TORCH_VERSION := (\S+)$", makefile, re.MULTILINE)
    assert found is not None
    assert recipe_of("sglang", "cpu").torch == found[1]


def test_arms_with_the_recipe_alone_share_one_environment(tmp_path: Path) -> None:
    found, plan = project(tmp_path)
    folders = [environment_of(found, plan, arm, locked=False) for arm in plan.arms]
    names = dict(zip(plan.arms, folders, strict=True))
    assert names["pristine"] == names["patched"] == recipe_environment(found, "sglang", "cpu")
    assert names["other"] != names["pristine"]


def test_the_device_of_the_plan_decides_the_recipe(tmp_path: Path) -> None:
    found, plan = project(tmp_path, "cuda")
    assert environment_of(found, plan, "pristine", locked=False) == recipe_environment(
        found, "sglang", "cuda"
    )
    assert how_to_build(plan, "pristine") == "harness env create sglang --device cuda"


def test_what_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    found, plan = project(tmp_path)
    prove = prover(found, plan, locked=False)
    with pytest.raises(NotReadyError, match="not built; `harness env create sglang`"):
        prove("patched")
    with pytest.raises(NotReadyError, match="not built; `harness env create other conf=toy`"):
        prove("other")


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected sglang"):
        recipe_of("vllm", "cpu")
    (tmp_path / "conf").mkdir()
    done = harness(tmp_path, "env", "create")
    assert done.code == 2
    assert "name one engine (sglang)" in done.err


def stands_in(program: str) -> str:
    folder = recipe_of("sglang", "cpu").stand_ins
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


def test_kernels_can_be_declared_but_not_launched() -> None:
    program = """
import triton, triton.language as tl
assert triton.language is tl and triton.cdiv(7, 2) == 4 and triton.next_power_of_2(5) == 8
@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=[])
@triton.heuristics({})
@triton.jit
def kernel(x, N: tl.constexpr): ...
for launch in (lambda: kernel[(1,)](1), lambda: kernel(1), lambda: triton.runtime.driver.active):
    try: launch()
    except RuntimeError as error: print(error)
"""
    said = stands_in(program).splitlines()
    assert said[0] == said[1] == "triton kernel kernel: launched where there is no triton"
    assert "0 active drivers" in said[2]


def test_a_missing_cpu_kernel_names_itself() -> None:
    program = """
from sgl_kernel import tree_mask
try: tree_mask(1)
except NotImplementedError as error: print(error)
"""
    assert stands_in(program) == "sgl_kernel.tree_mask: there is no such kernel on this CPU"
