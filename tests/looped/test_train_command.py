"""`harness train`: the shipped models' recipes from the command to the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from harness.cli import train
from harness.looped import card
from harness.looped.recipes import RECIPES
from harness.looped.weights import find, load
from harness.tasks.tokenizer import embedded_tokenizer


@pytest.mark.slow
def test_a_watched_training_says_rate_and_losses() -> None:
    tokenizer = embedded_tokenizer(find("tiny_ripe") / "tokenizer.json")
    line = train._watch(tokenizer)(load("tiny_ripe"))
    assert line.startswith("rho 0.6")
    assert "over loops 4 to" in line
    losses = [float(word) for word in line.rpartition("32 loops ")[2].split()]
    assert len(losses) == 4
    assert all(0.2 < loss < 0.3 for loss in losses)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_starts_warm_resumes_and_writes_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    small = {"_MOST_TOKENS": 8, "_DRAFT_LOOPS": (1,), "_PLANES_LENGTH": 24, "_PLANES_TEXTS": 1}
    for constant, value in small.items():
        monkeypatch.setattr(card, constant, value)
    output, work = tmp_path / "small", tmp_path / "work"
    words = ["tiny_unripe", "--output", str(output), "--work", str(work), "--items", "2"]
    assert train.main([*words, "--steps", "2"]) == 0
    assert "fresh at step 0" in capsys.readouterr().out
    first = load(output).tensors
    facts = json.loads((output / "card.json").read_text(encoding="utf-8"))
    assert (facts["recipe"]["name"], facts["steps"]) == ("unripe", 2)
    ripe = load("tiny_ripe").tensors
    name = "transformer.prelude.0.norm_4.weight"
    assert RECIPES["unripe"].is_frozen(name)
    assert torch.equal(first[name], ripe[name])
    warm = "transformer.wte.weight"
    assert 0 < float((first[warm] - ripe[warm]).norm()) < 0.1 * float(ripe[warm].norm())
    known = (find("tiny_ripe") / "tokenizer.json").read_bytes()
    assert (output / "tokenizer.json").read_bytes() == known
    assert train.main([*words, "--steps", "3"]) == 0
    assert "resumed at step 2" in capsys.readouterr().out
    assert not torch.equal(load(output).tensors[warm], first[warm])
