"""The shipped model is the one that its card describes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from harness.looped.card_text import card_markdown
from harness.looped.decode import generate
from harness.looped.generation import FULL_PROMPT, Speculative
from harness.looped.policies import ripe
from harness.looped.weights import SHIPPED, load
from harness.tasks import arithmetic
from harness.tasks.answers import RIGHT, score
from harness.tasks.arithmetic import Difficulty
from harness.tasks.tokenizer import END, load_tokenizer

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
