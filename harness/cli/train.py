"""`python -m harness.cli.train`: train an embedded model and write its folder."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Train by a recipe, resume where a run stopped, and write weights, tokenizer and card."""
    options = _parser().parse_args(argv)
    import torch

    from harness.looped.recipes import RECIPES, tiny_config
    from harness.looped.training import Trainer
    from harness.tasks.corpus import packed, vocabulary

    torch.set_num_threads(1)
    recipe = RECIPES[options.recipe]
    if options.steps:
        recipe = replace(recipe, steps=options.steps)
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary(recipe.seed)
    config = tiny_config(vocab=-(-tokenizer.size // 64) * 64)

    def source(step: int, rows: int, length: int) -> tuple[list[list[int]], list[list[float]]]:
        return packed(recipe.seed, step, rows, length, tokenizer)

    trainer = Trainer(config, recipe, source, work, _say)
    parameters = sum(t.numel() for t in trainer.model.tensors.values())
    _say(
        f"{'resumed' if trainer.resume() else 'fresh'}: {parameters} parameters, {config.vocab} ids"
    )
    trained = trainer.run()
    from harness.cli.train_output import write_model

    write_model(Path(options.output), config, tokenizer, recipe, trained, _say)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.cli.train", description=__doc__)
    parser.add_argument("--recipe", default="ripe", help="name of a recipe")
    parser.add_argument("--output", required=True, help="folder of the finished model")
    parser.add_argument("--work", required=True, help="folder for the state to resume from")
    parser.add_argument("--steps", type=int, default=0, help="other number of steps, for trials")
    return parser


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
