"""Training: recipes, resume, and that the loss falls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from harness.looped.config import LoopedConfig
from harness.looped.errors import WeightsError
from harness.looped.recipes import RECIPES, Phase, Recipe, Slope, tiny_config
from harness.looped.training import Trained, Trainer, draw_loops, initial_tensors

CONFIG = replace(
    tiny_config(64), n_embd=32, n_heads=2, n_kv_heads=2, head_dim=16, intermediate=48, state_std=0.6
)
RECIPE = Recipe(
    "test",
    seed=3,
    phases=(Phase(6, 2, 16), Phase(12, 1, 24)),
    slopes=(Slope(4, 12, 1.0, 0.1),),
    focus_from=8,
    loops_ramp=6,
    loops_mean=(2.0, 4.0),
    backprop_loops=2,
    warmup_steps=2,
)


def _source(step: int, rows: int, length: int) -> tuple[list[list[int]], list[list[float]]]:
    ids = [[(7 * i + row + step) % 61 for i in range(length + 1)] for row in range(rows)]
    return ids, [[0.2 if i % 3 else 1.0 for i in range(length + 1)]] * rows


def _trainer(folder: Path, recipe: Recipe = RECIPE, config: LoopedConfig = CONFIG) -> Trainer:
    folder.mkdir(exist_ok=True)
    return Trainer(config, recipe, _source, folder, lambda line: None, compiled=False)


def _run(folder: Path, stop_at: int | None = None) -> Trained:
    trainer = _trainer(folder)
    if stop_at is not None:
        while trainer.step < stop_at:
            trainer.advance()
        trainer.save()
        trainer = _trainer(folder)
        assert trainer.resume()
    return trainer.run()


@pytest.mark.parametrize("stop_at", [1, 5, 11])
def test_a_resumed_run_ends_identically(tmp_path: Path, stop_at: int) -> None:
    whole = _run(tmp_path / "whole")
    parts = _run(tmp_path / "parts", stop_at)
    assert all(torch.equal(whole.tensors[n], parts.tensors[n]) for n in whole.tensors)
    assert (parts.steps, parts.tokens, parts.data_digest, parts.last_loss) == (
        whole.steps,
        whole.tokens,
        whole.data_digest,
        whole.last_loss,
    )


def test_the_loss_falls(tmp_path: Path) -> None:
    recipe = replace(RECIPE, phases=(Phase(60, 2, 16),), slopes=(Slope(30, 60, 1.0, 0.1),))
    trainer = _trainer(tmp_path / "falls", recipe)
    trainer.advance()
    first = trainer.loss
    assert trainer.run().last_loss < first
    assert trainer.optimiser.smallest_core_gain() > 0.5


def test_a_fresh_folder_has_nothing_to_resume(tmp_path: Path) -> None:
    assert not _trainer(tmp_path / "fresh").resume()


def test_the_state_of_another_model_is_refused(tmp_path: Path) -> None:
    _trainer(tmp_path / "a", config=replace(CONFIG, prelude=2)).save()
    with pytest.raises(WeightsError, match="unknown tensor; start a fresh folder"):
        _trainer(tmp_path / "a").resume()


def test_start_weights_depend_on_the_seed_only() -> None:
    a, b, c = (initial_tensors(CONFIG, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a[n], b[n]) for n in a)
    assert not torch.equal(a["transformer.adapter.weight"], c["transformer.adapter.weight"])


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_recipes_are_whole(recipe: Recipe) -> None:
    assert recipe.phase(recipe.steps - 1) is recipe.phases[-1]
    rates = [recipe.rate(step) for step in range(recipe.steps)]
    assert max(rates) == 1.0
    assert 0 < rates[0] < 0.02 and 0 < rates[-1] < 0.02
    jumps = [abs(a - b) for a, b in pairwise(rates)]
    assert max(jumps) < 0.011
    drawn = [draw_loops(recipe, step) for step in range(0, recipe.steps, 10)]
    assert min(drawn) >= 1 and max(drawn) <= recipe.loops_max
    late = [draw_loops(recipe, step) for step in range(recipe.steps // 2, recipe.steps)]
    assert sum(late) / len(late) == pytest.approx(recipe.loops_mean[1], rel=0.05)


def test_a_slope_is_flat_outside() -> None:
    slope = Slope(10, 20, 1.0, 0.5)
    assert [slope.at(step) for step in (0, 10, 15, 20, 99)] == [1.0, 1.0, 0.75, 0.5, 0.5]


def test_a_broken_off_recipe_starts_like_the_whole_one() -> None:
    short = RECIPE.first_steps(8)
    assert short.steps == 8
    for step in range(8):
        assert short.phase(step).length == RECIPE.phase(step).length
        assert short.rate(step) == RECIPE.rate(step)
