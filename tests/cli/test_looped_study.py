"""The embedded model through the command line: the same plan twice gives the same tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.store.framed import read_framed
from tests.cli.study import ok

pytestmark = pytest.mark.slow

PLAN = """
study: looped
stage: explore
question: same_tokens
title: speculation against sequential decoding
model: {{name: tiny_ripe, loops: 32, dtype: {dtype}}}
task: {{max_tokens: 48}}
partitions:
  source: arithmetic
  seed: looped
  options: {{steps: [2, 2], max_number: 99}}
  explore: 8
arms:
  pristine:
    role: pristine
    backend: looped
    cache: {{policy: full}}
    decode: {{kind: sequential}}
  patched:
    role: patched
    backend: looped
    cache: {{policy: ripe, window: 4}}
    decode: {{kind: speculative, draft_loops: 2, draft_tokens: 4}}
schedule: {{design: abba_baab, block_items: 2, blocks: 4}}
measurements: [generation, memory]
limits: {{}}
predictions: []
"""


def tokens(run: Path) -> dict[tuple[str, str, int], list[int]]:
    """Item, arm and visit → token ids."""
    return {
        (record["key"]["item"], record["key"]["arm"], record["key"]["visit"]): record["token_ids"]
        for record in read_framed(run / "journal.log")
        if record["kind"] == "trial" and record["phase"] == "scored"
    }


def run_once(folder: Path, dtype: str) -> Path:
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "looped.yaml").write_text(PLAN.format(dtype=dtype), encoding="utf-8")
    ok(folder, "run", "conf=looped")
    return next((folder / "runs" / "looped").glob("0001-*"))


def test_twice_in_float64_is_the_same_and_so_are_the_arms(tmp_path: Path) -> None:
    first, second = run_once(tmp_path / "a", "float64"), run_once(tmp_path / "b", "float64")
    one, two = tokens(first), tokens(second)
    by_content = sorted(map(tuple, one.values()))
    assert by_content == sorted(map(tuple, two.values()))
    for (item, arm, visit), found in one.items():
        assert found == one[item, "pristine", 1], (arm, visit)


def test_in_float32_every_divergence_is_a_near_tie(tmp_path: Path) -> None:
    run = run_once(tmp_path / "a", "float32")
    analysis = json.loads((run / "analysis.json").read_text())
    assert analysis["near_ties"]["unexplained"] == 0
    assert analysis["near_ties"]["margin"] > 0
    assert analysis["arms"]["patched"]["acceptance"] > 0.5
    assert (
        analysis["arms"]["patched"]["cache_bytes_mean"] * 3
        < (analysis["arms"]["pristine"]["cache_bytes_mean"])
    )
