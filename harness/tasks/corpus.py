"""Training text: documents of both families, packed into rows of one length."""

from __future__ import annotations

from collections.abc import Iterator

from harness.tasks import arithmetic, notes
from harness.tasks.arithmetic import Difficulty
from harness.tasks.items import Item
from harness.tasks.streams import Stream
from harness.tasks.tokenizer import END, Tokenizer, learn_words

NOTES_PERCENT = 30
_LIMITS = (99, 299, 999, 999)
_PROMPT_WEIGHT = 0.2
_ANSWER_WEIGHTS = {arithmetic.FAMILY: 1.0, notes.FAMILY: 0.5}

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


def packed(seed: str | int, step: int, rows: int, length: int, tokenizer: Tokenizer) -> Rows:
    """Token ids [rows, length + 1] and the weight of predicting each [rows, length + 1].

    Each row starts at the start of a document and the last document is cut. The result depends on
    the arguments only, so a resumed training sees the same text.
    """
    source = documents(f"{seed}/{step}")
    all_ids, all_weights = [], []
    for _ in range(rows):
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length + 1:
            item = next(source)
            prompt, answer = tokenizer.encode(item.prompt), tokenizer.encode(item.answer)
            ids += [*prompt, *answer, END]
            weights += [_PROMPT_WEIGHT] * len(prompt)
            weights += [_ANSWER_WEIGHTS[item.family]] * (len(answer) + 1)
        all_ids.append(ids[: length + 1])
        all_weights.append(weights[: length + 1])
    return all_ids, all_weights


def vocabulary(seed: str | int, documents_read: int = 6000, limit: int = 447) -> Tokenizer:
    """The tokenizer of the words that the training text uses."""
    source = documents(f"{seed}/vocabulary")
    items = [next(source) for _ in range(documents_read)]
    return Tokenizer(learn_words((item.prompt + item.answer for item in items), limit))
