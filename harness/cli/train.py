"""`python -m harness.cli.train`: train an embedded model and write its folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.looped.card import Probe
    from harness.looped.recipes import Recipe
    from harness.tasks.items import Item
    from harness.tasks.tokenizer import Tokenizer

# (steps, largest number) of the problems that the card reports on
_DIFFICULTIES = (((2, 4), 299), ((1, 2), 99), ((2, 3), 299), ((2, 4), 999))
_CARD_SEED = "card"


def main(argv: list[str] | None = None) -> int:
    """Train by a recipe, resume where a run stopped, and write weights, tokenizer and card."""
    options = _parser().parse_args(argv)
    from harness.looped.recipes import RECIPES

    if options.recipe not in RECIPES:
        names = ", ".join(sorted(RECIPES))
        print(f"--recipe: found '{options.recipe}', expected one of {names}", file=sys.stderr)
        return 2
    recipe = RECIPES[options.recipe]
    if options.steps:
        recipe = recipe.first_steps(options.steps)
    _train(recipe, Path(options.work), Path(options.output), options.items)
    return 0


def _train(recipe: Recipe, work: Path, output: Path, items: int) -> None:
    from harness.looped.card import write_model
    from harness.looped.recipes import tiny_config
    from harness.looped.training import Trainer, use_one_thread
    from harness.tasks.corpus import packed, vocabulary

    use_one_thread()
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary(recipe.seed)
    config = tiny_config(vocab=-(-tokenizer.size // 64) * 64)

    def source(step: int, rows: int, length: int) -> tuple[list[list[int]], list[list[float]]]:
        focus = step >= recipe.focus_from
        return packed(recipe.seed, step, rows, length, tokenizer, focus=focus)

    trainer = Trainer(config, recipe, source, work, _say)
    _say(f"{'resumed' if trainer.resume() else 'fresh'} at step {trainer.step}, {config.vocab} ids")
    trained = trainer.run()
    output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(output / "tokenizer.json")
    write_model(output, config, recipe, trained, _probes(tokenizer, items), _say)


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.cli.train", description=__doc__)
    parser.add_argument("--recipe", default="ripe", help="name of a recipe")
    parser.add_argument("--output", required=True, help="folder of the finished model")
    parser.add_argument("--work", required=True, help="folder for the state to resume from")
    parser.add_argument("--steps", type=int, default=0, help="other number of steps, for trials")
    parser.add_argument("--items", type=int, default=256, help="explore items for each card line")
    return parser


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
