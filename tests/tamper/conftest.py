from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.study import finished_once


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study; copy it before changing anything."""
    return finished_once(tmp_path_factory.mktemp("study") / "project")


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished study."""
    return Path(shutil.copytree(finished, tmp_path / "project"))
