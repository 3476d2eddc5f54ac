"""The floors of the house: imports point downwards only, and heavy ones stay inside functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import harness

PACKAGE = Path(harness.__file__).parent

ALLOWED = {
    "store": set(),
    "plan": {"store"},
    "tasks": set(),
    "looped": set(),
    "analysis": set(),
    "ledger": {"plan", "store"},
    "backends": {"looped", "tasks", "plan", "store"},
    "prereg": {"ledger", "analysis", "plan", "store"},
    "report": {"analysis", "ledger", "plan", "store"},
    "measure": {"backends", "tasks", "analysis", "plan", "store"},
    "run": {"plan", "prereg", "ledger", "measure", "backends", "tasks", "store"},
    "cli": {
        "run", "measure", "report", "prereg", "backends", "ledger", "tasks", "looped", "analysis",
        "plan", "store",
    },
}  # fmt: skip

HEAVY = {"torch", "hydra", "omegaconf", "matplotlib", "pandas", "pyarrow", "sglang", "pynvml"}
TORCH_ALLOWED = {"looped"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the arrows"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    own = package_of(path)
    names = imports(ast.parse(path.read_text(encoding="utf-8")))
    used = {name.split(".")[1] for name in names if name.startswith("harness.")}
    assert used - {own} <= ALLOWED[own], f"{path}: may import {sorted(ALLOWED[own])}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_imports_stay_inside_functions(path: Path) -> None:
    if package_of(path) in TORCH_ALLOWED:
        pytest.skip("the looped models are torch code")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = ast.Module(body=[n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)],
                     type_ignores=[])  # fmt: skip
    assert not {name.split(".")[0] for name in imports(top)} & HEAVY


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_stay_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_the_looped_models_need_only_torch_numpy_and_safetensors() -> None:
    names: set[str] = set()
    for path in (PACKAGE / "looped").glob("*.py"):
        names |= {name.split(".")[0] for name in imports(ast.parse(path.read_text("utf-8")))}
    third_party = {name for name in names if name not in sys.stdlib_module_names}
    assert third_party <= {"torch", "numpy", "safetensors", "harness"}


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from harness.cli.main import main; main(['--help']);"
        "print([m for m in ('numpy','torch','pydantic','hydra','rich') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.rstrip().endswith("[]")
