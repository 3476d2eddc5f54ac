"""`harness train`: train an embedded model and write its folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.parsing import parser

if TYPE_CHECKING:
    from harness.looped.card import Probe
    from harness.looped.model import LoopedLM
    from harness.looped.recipes import Recipe
    from harness.tasks.items import Item
    from harness.tasks.tokenizer import Tokenizer

# (steps, largest number) of the problems that the card reports on
_DIFFICULTIES = (((2, 4), 299), ((1, 2), 99), ((2, 3), 299), ((2, 4), 999))
_CARD_SEED = "card"

MODELS = {"tiny_ripe": "ripe", "tiny_unripe": "unripe"}
"""Embedded models and their recipes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train by a recipe, resume where a run stopped, and write weights, tokenizer and card."""
    made = parser("train", "train an embedded model; the same command resumes")
    made.add_argument("name", choices=sorted(MODELS), help="an embedded model")
    made.add_argument("--output", help="folder of the finished model (default ./NAME)")
    made.add_argument("--work", help="folder for the state to resume from (default ./NAME.work)")
    made.add_argument("--steps", type=int, default=0, help="break off early, for trials")
    made.add_argument("--items", type=int, default=256, help="explore items for each card line")
    args = made.parse_args(argv)
    from harness.looped.recipes import RECIPES

    recipe = RECIPES[MODELS[args.name]]
    if args.steps:
        recipe = recipe.first_steps(args.steps)
    work, output = Path(args.work or f"{args.name}.work"), Path(args.output or args.name)
    _train(recipe, work, output, args.items)
    return 0


def _train(recipe: Recipe, work: Path, output: Path, items: int) -> None:
    from harness.looped.card import write_model
    from harness.looped.recipes import tiny_config
    from harness.looped.training import Trainer, use_one_thread
    from harness.looped.weights import find, load
    from harness.tasks.corpus import packed, vocabulary
    from harness.tasks.tokenizer import embedded_tokenizer

    use_one_thread()
    work.mkdir(parents=True, exist_ok=True)
    warm: LoopedLM | None = None
    if recipe.warm_start:
        warm = load(recipe.warm_start)
        tokenizer = embedded_tokenizer(find(recipe.warm_start) / "tokenizer.json")
    else:
        tokenizer = vocabulary(recipe.seed)
    config = tiny_config(vocab=-(-tokenizer.size // 64) * 64)

    def source(step: int, rows: int, length: int) -> tuple[list[list[int]], list[list[float]]]:
        focus = step >= recipe.focus_from
        return packed(recipe.seed, step, rows, length, tokenizer, focus=focus)

    trainer = Trainer(
        config,
        recipe,
        source,
        work,
        _say,
        warm=None if warm is None else warm.tensors,
        watch=_watch(tokenizer),
    )
    _say(f"{'resumed' if trainer.resume() else 'fresh'} at step {trainer.step}, {config.vocab} ids")
    trained = trainer.run()
    output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(output / "tokenizer.json")
    write_model(output, config, recipe, trained, _probes(tokenizer, items), _say)


def _watch(tokenizer: Tokenizer) -> Callable[[LoopedLM], str]:
    """A line on explore items: the ripening rate and the loss by loops."""
    from harness.looped.errors import LoopedError
    from harness.looped.held_out import held_out_loss, padded
    from harness.looped.ripening import fit_whole, plane_distances
    from harness.looped.start import KEYED
    from harness.tasks import arithmetic
    from harness.tasks.arithmetic import Difficulty
    from harness.tasks.tokenizer import END

    items = arithmetic.draw("explore", "watch", 16, Difficulty(*_DIFFICULTIES[0]))
    pairs = [(tokenizer.encode(i.prompt), [*tokenizer.encode(i.answer), END]) for i in items]
    mass = [[0.0] * len(prompt) + [1.0] * len(answer) for prompt, answer in pairs]
    ids, weights = padded([prompt + answer for prompt, answer in pairs], mass)
    shortest = min(len(prompt) + len(answer) for prompt, answer in pairs)

    def line(model: LoopedLM) -> str:
        losses = (held_out_loss(model, ids, weights, r, start=KEYED) for r in (4, 8, 16, 32))
        found = " ".join(f"{loss:.4f}" for loss in losses)
        try:
            fit = fit_whole(plane_distances(model, ids[:, :shortest], 32, start=KEYED))
            rate = f"rho {fit.rho:.4f} over loops {fit.first} to {fit.last}"
        except LoopedError as error:
            rate = str(error)
        return f"{rate}; loss at 4, 8, 16, 32 loops {found}"

    return line


def _probes(tokenizer: Tokenizer, count: int) -> list[Probe]:
    """Explore items for the card: problems of several difficulties, and notes."""
    from harness.tasks import arithmetic, notes
    from harness.tasks.arithmetic import Difficulty

    probes: list[Probe] = []
    for steps, limit in _DIFFICULTIES:
        items = arithmetic.draw("explore", _CARD_SEED, count, Difficulty(steps, limit))
        name = f"problems of {steps[0]} to {steps[1]} steps, numbers to {limit}"
        probes.append(_probe(tokenizer, name, items, scored=True, drafts=not probes))
    tales = notes.draw("explore", _CARD_SEED, count)
    probes.append(_probe(tokenizer, "notes", tales, scored=False, drafts=True))
    return probes


def _probe(
    tokenizer: Tokenizer, name: str, items: Sequence[Item], *, scored: bool, drafts: bool
) -> Probe:
    from harness.looped.card import Probe
    from harness.tasks.answers import RIGHT, score
    from harness.tasks.tokenizer import END

    def right(index: int, tokens: Sequence[int]) -> bool:
        return score(tokenizer.decode(tokens), items[index].answer) == RIGHT

    return Probe(
        name,
        [tokenizer.encode(item.prompt) for item in items],
        [[*tokenizer.encode(item.answer), END] for item in items],
        END,
        right if scored else None,
        drafts,
    )


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)
