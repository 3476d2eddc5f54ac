"""Training text: documents of both families, packed into rows of one length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.tasks import arithmetic, notes
from harness.tasks.arithmetic import Difficulty
from harness.tasks.items import Item
from harness.tasks.streams import Stream
from harness.tasks.tokenizer import END, Tokenizer, learn_words

NOTES_PERCENT = 30
_LIMITS = (99, 299, 999, 999)

# How much the prediction of a token counts: in prompts, in answers by family, and in results.
_PLAIN = {"prompt": 0.2, arithmetic.FAMILY: 1.0, notes.FAMILY: 0.5, "result": 1.0}
_FOCUSED = {"prompt": 0.1, arithmetic.FAMILY: 0.5, notes.FAMILY: 0.3, "result": 4.0}
_RESULT = re.compile(r"(?:=|is|makes|gives) (\d+)")

Rows = tuple[list[list[int]], list[list[float]]]


def documents(seed: str | int) -> Iterator[Item]:
    """Train-bucket items without end: problems of 1 to 4 steps and mixed sizes, and notes."""
    stream = Stream("corpus", seed)
    problems = [
        arithmetic.endless("train", f"{seed}/{limit}/{i}", Difficulty((1, 4), limit))
        for i, limit in enumerate(_LIMITS)
    ]
    tales = notes.endless("train", seed)
    while True:
        yield next(tales if stream.chance(NOTES_PERCENT) else stream.choice(problems))


def packed(
    seed: str | int, step: int, rows: int, length: int, tokenizer: Tokenizer, *, focus: bool = False
) -> Rows:
    """Token ids [rows, length + 1] and the weight of predicting each [rows, length + 1].

    Each row starts at the start of a document and the last document is cut. With `focus`, the
    digits of calculated results count most. The result depends on the arguments only, so a
    resumed training sees the same text.
    """
    scale = _FOCUSED if focus else _PLAIN
    source = documents(f"{seed}/{step}")
    all_ids, all_weights = [], []
    for _ in range(rows):
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length + 1:
            item = next(source)
            prompt, answer = tokenizer.encode(item.prompt), tokenizer.encode(item.answer)
            ids += [*prompt, *answer, END]
            weights += [scale["prompt"]] * len(prompt)
            weights += _answer_weights(item, answer, tokenizer, scale)
        all_ids.append(ids[: length + 1])
        all_weights.append(weights[: length + 1])
    return all_ids, all_weights


def _answer_weights(
    item: Item, answer: list[int], tokenizer: Tokenizer, scale: dict[str, float]
) -> list[float]:
    """Weights of an answer's tokens and of END. Results are digits, and digits single tokens."""
    base = scale[item.family]
    results: set[int] = set()
    if item.family == arithmetic.FAMILY:
        for match in _RESULT.finditer(item.answer):
            results.update(range(*match.span(1)))
    weights, place = [], 0
    for token in answer:
        weights.append(scale["result"] if place in results else base)
        place += len(tokenizer.decode([token]))
    return [*weights, base]


def vocabulary(seed: str | int, documents_read: int = 6000, limit: int = 447) -> Tokenizer:
    """The tokenizer of the words that the training text uses."""
    source = documents(f"{seed}/vocabulary")
    items = [next(source) for _ in range(documents_read)]
    return Tokenizer(learn_words((item.prompt + item.answer for item in items), limit))
