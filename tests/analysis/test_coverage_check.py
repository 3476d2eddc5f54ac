"""The self-check of coverage: every claimed cell, block noise, and A/A runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from harness.analysis.coverage import coverage_check

PROGRAM = Path(__file__).parents[2] / "docs" / "statistics_numbers.py"
CELLS = coverage_check()


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.name}/{c.clusters}/{c.method}")
def test_coverage_is_as_claimed(cell: object) -> None:
    assert cell.ok, cell.sentence  # type: ignore[attr-defined]


def test_item_clusters_visibly_fail_under_block_noise() -> None:
    block, item = (
        [c for c in CELLS if c.method == f"{unit}s as clusters"] for unit in ("block", "item")
    )
    assert len(block) == len(item) == 2
    assert all(one.share > 0.93 for one in block)
    assert all(one.share < 0.75 for one in item)


def test_the_answer_is_the_same_every_time() -> None:
    again = coverage_check(data_sets=500, aa_runs=500)
    assert again == coverage_check(data_sets=500, aa_runs=500)


def test_the_page_says_what_the_programs_measured() -> None:
    if not PROGRAM.exists():
        pytest.skip("the docs are not installed here")
    spec = importlib.util.spec_from_file_location("statistics_numbers", PROGRAM)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    found = program.regions(CELLS)
    for page in program.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- numbers:speed -->" in text
        assert program.rewritten(text, found) == text, f"run {PROGRAM.name}: {page.name} is stale"
