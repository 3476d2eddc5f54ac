"""The card is measured on the files as written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.looped import card
from harness.looped.card import Probe, write_model
from harness.looped.card_text import card_markdown
from harness.looped.recipes import RECIPES, tiny_config
from harness.looped.training import Trained, initial_tensors
from harness.looped.weights import load

CONFIG = replace(tiny_config(64), n_embd=32, n_heads=2, n_kv_heads=2, head_dim=16, intermediate=48)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(card, "LOOPS", (1, 8))
    monkeypatch.setattr(card, "_MOST_TOKENS", 6)
    prompts = [[1, 2, 3, 4], [5, 6, 7, 8, 9]]
    answers = [[10, 11, 12, 0], [13, 0]]

    def right(index: int, tokens: Sequence[int]) -> bool:
        return list(tokens) == answers[index]

    probes = [
        Probe("sums", prompts, answers, 0, right),
        Probe("tales", prompts, answers, 0, drafts=True),
    ]
    trained = Trained(initial_tensors(CONFIG, 1), 7, 700, "ab" * 32, 1.5)
    write_model(tmp_path / "tiny", CONFIG, RECIPES["ripe"], trained, probes, lambda line: None)
    return tmp_path / "tiny"


def test_the_folder_is_complete_and_consistent(folder: Path) -> None:
    facts = json.loads((folder / "card.json").read_text())
    data = (folder / "model.safetensors").read_bytes()
    assert facts["file_sha256"] == hashlib.sha256(data).hexdigest()
    assert facts["file_bytes"] == len(data)
    assert (facts["steps"], facts["tokens"]) == (7, 700)
    assert load(folder).config == replace(CONFIG, state_std=load(folder).config.state_std)
    measured = facts["measured"]
    assert [set(p) for p in measured["probes"]] == [
        {"probe", "items", "answer_loss", "accuracy"},
        {"probe", "items", "answer_loss"},
    ]
    assert set(measured["probes"][0]["accuracy"]) == {"1", "8"}
    assert len(measured["acceptance"]) == 12
    assert all(0 <= rate <= 1 for line in measured["acceptance"] for rate in line["by_place"])
    assert 0 < measured["ripening"]["rho"] < 1.5


def test_the_card_shows_what_was_measured(folder: Path) -> None:
    text = (folder / "MODEL_CARD.md").read_text()
    facts = json.loads((folder / "card.json").read_text())
    assert text.startswith("# tiny\n")
    assert facts["file_sha256"] in text
    loss = facts["measured"]["probes"][0]["answer_loss"]["8"]
    assert f"{loss:.3f}" in text
    assert "accuracy, sums (2 items)" in text
    assert "| tales | ripe(16) | 4 | deepest |" in text
    planes = facts["measured"]["planes"]["divergence"]
    assert [line["reads"] for line in planes][:2] == ["bfloat16", "W = 0"]
    assert all(line["largest"] >= line["mean"] > 0 for line in planes)
    assert f"| bfloat16 | {planes[0]['mean']:.2e} |" in text
    assert "trained from nothing on text" in text
    assert "slow by construction" not in text


def test_a_card_says_where_a_slow_model_comes_from(folder: Path) -> None:
    facts = json.loads((folder / "card.json").read_text())
    facts["recipe"] = asdict(RECIPES["unripe"])
    text = card_markdown("tiny", json.loads(json.dumps(facts)))
    assert "from the embedding, prelude and coda of tiny_ripe" in text
    assert "held at 0.98 times the state plus 0.06 times" in text
    assert "`transformer.core_block.*.mlp.proj.weight` 0.5" in text
