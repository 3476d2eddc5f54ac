"""Where SGLang's environment lies, or why its tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.backends.sglang.worker import SglangBackend

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sglang_python() -> Path:
    """The interpreter that has SGLang: HARNESS_SGLANG_PYTHON, or the one built in this project."""
    from harness.run.arm_environment import recipe_environment
    from harness.store.paths import Project

    given = os.environ.get("HARNESS_SGLANG_PYTHON")
    environment = recipe_environment(Project(ROOT), "sglang", "cpu")
    if given:
        return Path(given)
    if not environment.record.is_file():
        pytest.skip("SGLang is not installed: harness env create sglang")
    return environment.python


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SglangBackend]:
    monkeypatch.setenv("HARNESS_SCRATCH", str(tmp_path / "s"))
    backend = SglangBackend()
    yield backend
    backend.close()
    assert not list((tmp_path / "s").glob("*"))
    assert not psutil.Process().children(recursive=True)
