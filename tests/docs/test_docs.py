"""The documentation does what it says: links lead somewhere, commands run, names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS
from tests.cli.study import ok

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"^\$ harness ([a-z]+)", text, re.MULTILINE)
    named += re.findall(r"`harness ([a-z]+)[^`]*`", text)
    assert set(named) <= set(COMMANDS), sorted(set(named) - set(COMMANDS))


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for language, body in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL):
        first = body.partition("\n")[0]
        if language == "yaml" and first.startswith("# conf/"):
            path = tmp_path / first.removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        if language == "console":
            for line in body.splitlines():
                assert line.startswith("$ harness "), line
                result = ok(tmp_path, *line.removeprefix("$ harness ").split())
                assert "Traceback" not in result.err
    words = ok(tmp_path, "ledger", "show", "tutorial").out
    assert "held" in words
    assert "failed" in words
