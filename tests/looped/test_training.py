"""Training: recipes, resume, and that the loss falls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.looped.config import LoopedConfig
from harness.looped.errors import WeightsError
from harness.looped.recipes import RECIPES, Phase, Recipe, Slope, tiny_config
from harness.looped.training import (
    Trained,
    Trainer,
    draw_loops,
    initial_tensors,
    start_tensors,
)

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


SLOW = replace(
    RECIPE,
    adapter_start=(0.98, 0.06),
    caps=(("*.core_block.*.attn.proj.weight", 0.2), ("*.core_block.*.mlp.fc.weight", 3.0)),
    cap_step=0.1,
    frozen=("transformer.adapter.weight", "transformer.core_block.*.norm_[24].weight"),
    warm_start="other",
    warm_tensors=("transformer.wte.weight", "transformer.coda.*"),
)


def _capped(tensors: dict[str, Tensor]) -> dict[str, float]:
    return {n: float(t.norm()) for n, t in tensors.items() if SLOW.cap(n) is not None}


def test_a_slow_recipe_keeps_what_it_holds(tmp_path: Path) -> None:
    warm = initial_tensors(CONFIG, 99)
    start = start_tensors(CONFIG, SLOW, warm)
    trainer = Trainer(CONFIG, SLOW, _source, tmp_path, lambda line: None, warm=warm, compiled=False)
    trained = trainer.run().tensors
    for name, before in start.items():
        assert torch.equal(trained[name], before) == SLOW.is_frozen(name), name
    caps = _capped(trained)
    assert len(caps) == 4
    assert all(norm <= SLOW.cap(name) * (1 + 1e-6) for name, norm in caps.items())  # type: ignore[operator]
    # The start weights lie above the caps, so the caps hold from the first step on.
    assert all(norm > SLOW.cap(name) for name, norm in _capped(start).items())  # type: ignore[operator]


def test_a_slow_recipe_starts_from_the_other_model_where_it_says() -> None:
    warm, cold = initial_tensors(CONFIG, 99), initial_tensors(CONFIG, SLOW.seed)
    start = start_tensors(CONFIG, SLOW, warm)
    for name, tensor in start.items():
        if name != "transformer.adapter.weight":
            source = warm if SLOW.is_warm(name) else cold
            assert torch.equal(tensor, source[name]), name
    assert any(SLOW.is_warm(name) and not torch.equal(start[name], cold[name]) for name in start)


def test_the_slow_adapter_keeps_the_state_and_turns_the_rest() -> None:
    n = CONFIG.n_embd
    adapter = start_tensors(CONFIG, SLOW, initial_tensors(CONFIG, 9))["transformer.adapter.weight"]
    keep, push = adapter[:, :n], adapter[:, n:].double() / 0.06
    assert torch.equal(keep, 0.98 * torch.eye(n))
    torch.testing.assert_close(push @ push.T, torch.eye(n).double(), rtol=0, atol=1e-5)
    assert float((push - torch.eye(n)).norm()) > 1


@pytest.mark.parametrize("warm", [None, {}, {"transformer.wte.weight": torch.zeros(3, 3)}])
def test_a_warm_start_without_its_model_is_refused(warm: dict[str, Tensor] | None) -> None:
    with pytest.raises(WeightsError, match="not in the model 'other' that the recipe starts from"):
        start_tensors(CONFIG, SLOW, warm)


def test_capped_matrices_move_by_a_share_of_their_cap(tmp_path: Path) -> None:
    recipe = replace(SLOW, warmup_steps=1, slopes=(), matrix_decay=0.0)
    warm = initial_tensors(CONFIG, 99)
    trainer = Trainer(
        CONFIG, recipe, _source, tmp_path, lambda line: None, warm=warm, compiled=False
    )
    before = {n: t.detach().clone() for n, t in trainer.optimiser.master.items()}
    trainer.advance()
    for name, norm in _capped(before).items():
        moved = float((trainer.optimiser.master[name].detach() - before[name]).norm())
        assert 0.2 * norm * recipe.cap_step < moved < 1.5 * norm * recipe.cap_step, name


def test_the_ripe_recipe_holds_nothing() -> None:
    ripe = RECIPES["ripe"]
    config = tiny_config(64)
    start = start_tensors(config, ripe)
    cold = initial_tensors(config, ripe.seed)
    assert all(torch.equal(start[name], cold[name]) for name in cold)
    assert not any(ripe.is_frozen(n) or ripe.is_warm(n) or ripe.cap(n) for n in cold)


def test_watching_changes_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "watched").mkdir()
    trainer = Trainer(
        CONFIG,
        RECIPE,
        _source,
        tmp_path / "watched",
        lines.append,
        watch=lambda model: f"saw {model.dtype}",
        compiled=False,
    )
    watched = trainer.run(save_every=5, report_every=100)
    assert lines == ["step 5: saw torch.float32", "step 10: saw torch.float32"]
    plain = _run(tmp_path / "plain")
    assert all(torch.equal(watched.tensors[n], plain.tensors[n]) for n in plain.tensors)


def test_a_slope_is_flat_outside() -> None:
    slope = Slope(10, 20, 1.0, 0.5)
    assert [slope.at(step) for step in (0, 10, 15, 20, 99)] == [1.0, 1.0, 0.75, 0.5, 0.5]


def test_a_broken_off_recipe_starts_like_the_whole_one() -> None:
    short = RECIPE.first_steps(8)
    assert short.steps == 8
    for step in range(8):
        assert short.phase(step).length == RECIPE.phase(step).length
        assert short.rate(step) == RECIPE.rate(step)
