"""Ripeness: the verdict, its yardsticks, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.cli import ripeness as command
from harness.looped.errors import LoopedError
from harness.looped.model import LoopedLM
from harness.looped.ripeness import Divergence, measure_ripeness
from harness.looped.saving import save_checkpoint
from harness.store.errors import UsageError
from tests.looped.models import CONFIGS, random_tensors

CONFIG = CONFIGS["huginn_0125"]
IDS = torch.randint(0, 31, (2, 24), generator=torch.Generator().manual_seed(1))


def _model(pull: float) -> LoopedLM:
    """A model whose loop forgets its state: the smaller `pull`, the faster it ripens."""
    tensors = {name: t.float() for name, t in random_tensors(CONFIG, 4).items()}
    adapter = tensors["transformer.adapter.weight"].clone()
    adapter[:, : CONFIG.n_embd] *= pull
    return LoopedLM(CONFIG, {**tensors, "transformer.adapter.weight": adapter})


def test_a_ripe_model_needs_no_window() -> None:
    found = measure_ripeness(_model(0.02), IDS, loops=16, windows=(0, 4))
    assert found.deepest_suffices and found.planes_ripe and found.window == 0
    assert found.late <= found.floor < 0.02
    assert found.by_window[0].mean <= found.rounding.mean
    assert found.fit is not None and found.fit.rho < 0.5


def test_an_unripe_model_needs_a_window_or_everything() -> None:
    found = measure_ripeness(_model(1.0), IDS, loops=4, windows=(0, 4, 16))
    assert not found.deepest_suffices and not found.planes_ripe
    assert found.window is None
    assert found.by_window[0].mean > found.by_window[16].mean > found.rounding.mean


def test_numbers_of_a_divergence_add_up() -> None:
    found = measure_ripeness(_model(1.0), IDS, loops=4, windows=(0,)).by_window[0]
    assert isinstance(found, Divergence)
    assert 0 < found.mean <= found.high <= found.largest
    assert 0 < found.top_share <= 1


def test_what_cannot_be_measured_is_refused() -> None:
    wide = LoopedLM(CONFIG, random_tensors(CONFIG))
    with pytest.raises(LoopedError, match="expected float32"):
        measure_ripeness(wide, IDS)
    with pytest.raises(LoopedError, match=r"windows: found \[4\], expected a rising row from 0"):
        measure_ripeness(_model(1.0), IDS, windows=(4,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    config = replace(CONFIG, loops=8)
    save_checkpoint(tmp_path / "small", config, dict(_model(0.02).tensors), dtype=torch.float32)
    (tmp_path / "ids.json").write_text(json.dumps(IDS.tolist()))
    return tmp_path


SIZES = ["--ids", "ids.json", "--texts", "2", "--length", "20"]


def test_the_command_prints_and_draws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(folder / "small"), *SIZES, "--loops", "16"]) == 0
    text = capsys.readouterr()
    assert "small, 16 loops, 40 positions" in text.out
    assert "the deepest plane suffices here" in text.out
    assert "Recommended with drafts: W = 4" in text.out
    assert "figure: ripeness-small.svg" in text.err
    assert (folder / "ripeness-small.svg").read_bytes().startswith(b"<?xml")


def test_the_command_gives_facts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(folder / "small"), *SIZES, "--json", "--mode", "one_pass", "--figure", "a.pdf"]
    assert command.main([*words, "--draft-tokens", "6"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["recommended_window"] == 6
    assert len(facts["medians"]) == facts["loops"] == 8
    assert set(facts["by_window"]) == {"0", "1", "2", "4", "8", "16"}
    assert (folder / "a.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: no such model folder"),
        (["small"], "tokenizer.json: not a readable tokenizer file"),
        (["small", "--ids", "none.json"], "none.json: not a readable list"),
        (["small", "--ids", "small/config.json"], "expected a JSON list of lists of token ids"),
        (["small", "--ids", "ids.json", "--texts", "9"], "found 0 texts of 192 tokens, expected 9"),
        (["small", *SIZES, "--figure", "a.png"], "ends in .svg or .pdf"),
    ],
)
def test_the_command_refuses_in_one_line(folder: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        command.main(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("large", [True, False])
def test_the_commands_verdict_names_a_window_only_where_there_is_one(large: bool) -> None:
    found = measure_ripeness(_model(1.0), IDS, loops=4, windows=(0, 4))
    text = command._verdict(found if large else replace(found, window=4), 2)
    assert ("Use the full cache" in text) == large
    assert ("a window of 4 does" in text) != large
