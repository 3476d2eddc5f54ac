from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.study import finished_once, ok, outlines
from tests.tamper import hands
from tests.tamper.plans import DIRECT, frozen


@pytest.fixture(autouse=True)
def outlined() -> Iterator[None]:
    """Nobody looks at the figures here."""
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
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frozen and committed, amended before anything ran, then run and committed again."""
    folder = frozen(tmp_path_factory.mktemp("ordered") / "project", "toy_direct", DIRECT)
    hands.git(folder, "init", "-q")
    hands.git(folder, "add", "-A")
    hands.git(folder, "commit", "-qm", "the lock")
    conf = hands.conf_of(folder, "toy_direct")
    hands.swap_text(conf, "1.4, null", "1.5, null")
    ok(folder, "amend", "conf=toy_direct", "--reason", "the claim is stronger")
    with outlines():
        ok(folder, "run", "toy_direct")
    hands.git(folder, "add", "-A")
    hands.git(folder, "commit", "-qm", "the results")
    return folder


@pytest.fixture
def direct(ordered: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(ordered, tmp_path / "direct"))
