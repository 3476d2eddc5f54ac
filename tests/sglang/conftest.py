"""Where SGLang's environment lies, or why its tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.backends.sglang.worker import SglangBackend
from tests.sglang.agreement_runs import PYTHON


@pytest.fixture(scope="session")
def sglang_python() -> Path:
    """The interpreter that has SGLang: HARNESS_SGLANG_PYTHON, or the one built in this project."""
    if not PYTHON:
        pytest.skip("SGLang is not installed: harness env create sglang")
    return Path(PYTHON)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SglangBackend]:
    monkeypatch.setenv("HARNESS_SCRATCH", str(tmp_path / "s"))
    backend = SglangBackend()
    yield backend
    backend.close()
    assert not list((tmp_path / "s").glob("*"))
    assert not psutil.Process().children(recursive=True)
