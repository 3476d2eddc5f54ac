from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.study import Result, finished_once, harness, outlines


@pytest.fixture(autouse=True)
def outlined() -> Iterator[None]:
    """Figures are drawn in tests/report, in the finished study and on a terminal."""
    with outlines():
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study; copy it before changing anything."""
    return finished_once(tmp_path_factory.mktemp("study") / "project")


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished study."""
    return Path(shutil.copytree(finished, tmp_path / "project"))


@pytest.fixture(scope="session")
def replicated(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The finished study after a second run, and what that run said; read it only."""
    folder = Path(shutil.copytree(finished, tmp_path_factory.mktemp("again") / "project"))
    with outlines():
        return folder, harness(folder, "run", "conf=toy_confirm", "--strict")
