"""What callers see: documented names, working examples, small pure modules."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import analysis as st

FOLDER = Path(st.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
ALLOWED = {"numpy", "scipy", "harness", *sys.stdlib_module_names}
NO_IO = {
    "os",
    "io",
    "pathlib",
    "sys",
    "subprocess",
    "socket",
    "shutil",
    "tempfile",
    "time",
    "random",
}


def test_every_public_name_is_documented_and_sorted() -> None:
    assert list(st.__all__) == sorted(
        st.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n)
    )
    for name in st.__all__:
        found = getattr(st, name)
        assert isinstance(found, tuple) or inspect.getdoc(found), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_pure_small_and_explained(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            root = name.split(".")[0]
            assert root in ALLOWED - NO_IO, name
            assert not name.startswith("harness") or name.startswith("harness.analysis"), name
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, node.name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "eval", "exec")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_in_docstrings_are_true(path: Path) -> None:
    name = "harness.analysis" if path.stem == "__init__" else f"harness.analysis.{path.stem}"
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize(
    ("planned", "names"),
    [
        (1, set()),
        (5, {"percentile-enumerated"}),
        (20, {"studentised", "percentile"}),
        (60, {"studentised"}),
    ],
)
def test_what_stands_beside_the_deciding_interval(planned: int, names: set[str]) -> None:
    sums = 1 + np.random.Generator(np.random.Philox(1)).random(planned)
    found = st.beside(sums, np.ones(planned), planned, key=bytes(16), log=True)
    assert set(found) == names
    decided = st.cr2_interval(sums, np.ones(planned), log=True)
    for one in found.values():
        assert isinstance(one, st.Bootstrap)
        assert isinstance(decided, st.Interval)
        assert abs(one.interval.low - decided.low) < 0.2
    more = st.beside(np.ones(11), np.ones(11), 5, key=bytes(16))
    assert isinstance(more["percentile-enumerated"], st.NotEstimable)
