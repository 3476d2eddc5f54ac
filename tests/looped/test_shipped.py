"""The shipped models are what their cards, their recipes and their names say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

from harness.cli.train import MODELS
from harness.looped.card_text import card_markdown
from harness.looped.decode import generate
from harness.looped.generation import FULL_PROMPT, Speculative
from harness.looped.held_out import held_out_loss, padded
from harness.looped.model import LoopedLM
from harness.looped.policies import ripe
from harness.looped.recipes import RECIPES, Recipe
from harness.looped.ripeness import Ripeness, measure_ripeness
from harness.looped.ripening import fit_ripening, plane_distances
from harness.looped.weights import SHIPPED, load
from harness.plan.schema import ModelSpec
from harness.tasks import arithmetic, notes
from harness.tasks.answers import RIGHT, score
from harness.tasks.arithmetic import Difficulty
from harness.tasks.tokenizer import END, embedded_tokenizer, load_tokenizer

FOLDERS = sorted(path.parent for path in SHIPPED.glob("*/card.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_files_are_those_of_the_card(folder: Path) -> None:
    facts = json.loads((folder / "card.json").read_text())
    data = (folder / "model.safetensors").read_bytes()
    assert hashlib.sha256(data).hexdigest() == facts["file_sha256"], (
        f"{folder}: shipped models are part of frozen plans and must not change"
    )
    assert (folder / "MODEL_CARD.md").read_text() == card_markdown(folder.name, facts)
    model = load(folder)
    assert load_tokenizer(folder / "tokenizer.json").size <= model.config.vocab


def test_the_ripe_model_answers_and_speculation_agrees() -> None:
    model = load("tiny_ripe")
    tokenizer = load_tokenizer(SHIPPED / "tiny_ripe" / "tokenizer.json")
    items = arithmetic.draw("explore", "shipped", 12, Difficulty((1, 2), 99))
    prompts = [tokenizer.encode(item.prompt) for item in items]

    def answers(loops: int, decode: Speculative | None = None) -> list[str]:
        found = generate(
            model,
            prompts,
            policy=ripe(8),
            prefill=FULL_PROMPT,
            decode=decode,
            loops=loops,
            max_tokens=80,
            stop=(END,),
            start="keyed",
        )
        return [tokenizer.decode(row.tokens) for row in found.rows]

    full_depth = answers(16)
    right = [score(t, i.answer) == RIGHT for t, i in zip(full_depth, items, strict=True)]
    assert sum(right) >= 9
    assert answers(16, Speculative(2, 4)) == full_depth
    shallow = answers(1)
    assert sum(score(t, i.answer) == RIGHT for t, i in zip(shallow, items, strict=True)) <= 8


def test_both_models_are_shipped_and_small() -> None:
    assert [folder.name for folder in FOLDERS] == sorted(MODELS) == ["tiny_ripe", "tiny_unripe"]
    files = [path for folder in FOLDERS for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) <= 8_000_000


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_recipe_in_the_code_made_the_file(folder: Path) -> None:
    facts = json.loads((folder / "card.json").read_text())
    recipe = RECIPES[MODELS[folder.name]]
    # A field that came later than a card was at its default when the card was written.
    defaults = {f.name: f.default for f in fields(Recipe)}
    written = {**defaults, **facts["recipe"]}
    assert json.dumps(written, sort_keys=True) == json.dumps(asdict(recipe), sort_keys=True)
    assert facts["steps"] == recipe.steps


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_plan_can_name_the_model(name: str) -> None:
    conf = Path(__file__).parents[2] / "conf" / "model" / f"{name}.yaml"
    spec = ModelSpec.model_validate(yaml.safe_load(conf.read_text(encoding="utf-8")))
    assert (spec.name, spec.loops) == (name, load(name).config.loops)


def _pairs(name: str, count: int) -> list[tuple[list[int], list[int]]]:
    tokenizer = embedded_tokenizer(SHIPPED / name / "tokenizer.json")
    items = arithmetic.draw("explore", "unripe", count, Difficulty((2, 4), 299))
    tales = notes.draw("explore", "unripe", count)
    mixed = [item for pair in zip(items, tales, strict=True) for item in pair]
    return [(tokenizer.encode(i.prompt), [*tokenizer.encode(i.answer), END]) for i in mixed]


def _texts(name: str, count: int, length: int) -> Tensor:
    whole = [token for prompt, answer in _pairs(name, 16) for token in prompt + answer]
    return torch.tensor([whole[i * length : (i + 1) * length] for i in range(count)])


@cache
def _ripeness(name: str) -> Ripeness:
    windows = (0, 16, 64) if name == "tiny_unripe" else (0,)
    return measure_ripeness(load(name), _texts(name, 8, 120), windows=windows)


def _rate(name: str) -> float:
    return fit_ripening(
        plane_distances(load(name), _texts(name, 4, 160), 32), first=8, until=31
    ).rho


def test_the_unripe_model_ripens_slowly_and_the_ripe_one_does_not() -> None:
    assert 0.8 < _rate("tiny_unripe") < 0.93
    assert _rate("tiny_ripe") < _rate("tiny_unripe") - 0.08


@pytest.mark.slow
def test_the_unripe_models_late_planes_are_not_settled() -> None:
    assert not _ripeness("tiny_unripe").planes_ripe
    assert _ripeness("tiny_ripe").planes_ripe


@pytest.mark.slow
def test_the_deepest_plane_has_a_tail_that_a_window_cuts() -> None:
    found, ripe_one = _ripeness("tiny_unripe"), _ripeness("tiny_ripe")
    deepest, middle, wide = (found.by_window[window] for window in (0, 16, 64))
    assert not found.deepest_suffices
    assert deepest.high > 1.2 * found.rounding.high
    assert deepest.top_share > 0.3
    assert deepest.mean > 3 * middle.mean > 9 * wide.mean
    assert ripe_one.deepest_suffices
    assert deepest.mean > 50 * ripe_one.by_window[0].mean


def _answer_loss(model: LoopedLM, name: str, loops: int) -> float:
    pairs = _pairs(name, 8)
    mass = [[0.0] * len(prompt) + [1.0] * len(answer) for prompt, answer in pairs]
    ids, weights = padded([prompt + answer for prompt, answer in pairs], mass)
    return held_out_loss(model, ids, weights, loops, start="keyed")


def test_the_unripe_model_needs_its_loops() -> None:
    model = load("tiny_unripe")
    losses = {loops: _answer_loss(model, "tiny_unripe", loops) for loops in (1, 2, 4, 8, 16, 32)}
    assert losses[1] > losses[2] > losses[4] > losses[8] > losses[16]
    assert losses[4] > losses[16] + 0.3
    assert abs(losses[16] - losses[32]) < 0.05
    assert losses[32] < 1.0


def test_the_unripe_models_loop_is_held_as_its_card_says() -> None:
    recipe, tensors = RECIPES["unripe"], load("tiny_unripe").tensors
    assert recipe.adapter_start is not None
    keep, push = recipe.adapter_start
    adapter = tensors["transformer.adapter.weight"].double()
    state, turned = adapter[:, :128], adapter[:, 128:] / push
    torch.testing.assert_close(state, keep * torch.eye(128).double(), rtol=0, atol=4e-3)
    torch.testing.assert_close(turned @ turned.T, torch.eye(128).double(), rtol=0, atol=1e-2)
    capped = {name: cap for name in tensors if (cap := recipe.cap(name)) is not None}
    assert len(capped) == 8
    assert all(float(tensors[name].norm()) <= cap * 1.01 for name, cap in capped.items())
    gains = [t for n, t in tensors.items() if recipe.is_frozen(n) and ".core_block." in n]
    assert len(gains) == 4 and all(torch.equal(g, torch.ones(128)) for g in gains)
