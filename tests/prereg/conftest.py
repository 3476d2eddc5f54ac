"""A finished study is built once and copied for every test that changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.store.paths import Project
from tests.prereg.study import finished_study, project_at


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_study(tmp_path_factory.mktemp("study") / "study").root


@pytest.fixture
def study(pattern: Path, tmp_path: Path) -> Project:
    shutil.copytree(pattern, tmp_path / "study")
    return Project(tmp_path / "study")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_at(tmp_path / "project")
