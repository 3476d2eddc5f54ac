"""Worded arithmetic problems: `Question: ... Answer: <worked steps> #### n`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.tasks.items import Item, ItemError, make_item, only, unique
from harness.tasks.phrasing import worked_answer
from harness.tasks.problems import WRITERS, Draft
from harness.tasks.streams import Stream

FAMILY = "arithmetic"


@dataclass(frozen=True, slots=True)
class Difficulty:
    """What makes a problem hard.

    `steps` is the range of calculations, `max_number` the largest number anywhere in a problem,
    `distractors` the share of problems with a sentence that does not matter, in percent.
    """

    steps: tuple[int, int] = (2, 4)
    max_number: int = 999
    distractors: int = 30

    def __post_init__(self) -> None:
        low, high = self.steps
        if not 1 <= low <= high <= 6:
            raise ItemError(f"steps: found {self.steps}, expected a range within 1..6")
        if not 20 <= self.max_number <= 999_999:
            raise ItemError(f"max_number: found {self.max_number}, expected 20..999999")
        if not 0 <= self.distractors <= 100:
            raise ItemError(f"distractors: found {self.distractors}, expected a percentage")


def draw(
    bucket: str, seed: str | int, count: int, difficulty: Difficulty | None = None
) -> tuple[Item, ...]:
    """`count` different problems of one bucket, the same ones for the same arguments.

    Raises ItemError for an unknown bucket, or when the difficulty allows too few problems.
    """
    return unique(endless(bucket, seed, difficulty), count)


def endless(bucket: str, seed: str | int, difficulty: Difficulty | None = None) -> Iterator[Item]:
    """Problems of one bucket without end; content of every other bucket is rejected by digest."""
    return only(bucket, _candidates(seed, difficulty or Difficulty()))


def problem(stream: Stream, difficulty: Difficulty) -> Item:
    """One problem drawn from a stream, of any bucket."""
    name, writer = stream.choice(WRITERS)
    draft = None
    while draft is None:
        count = stream.between(*difficulty.steps)
        draft = writer(stream, count, difficulty.max_number)
    prompt = _prompt(stream, draft, difficulty)
    return make_item(FAMILY, name, prompt, worked_answer(draft.steps, prompt))


def _candidates(seed: str | int, difficulty: Difficulty) -> Iterator[Item]:
    stream = Stream(FAMILY, seed)
    while True:
        yield problem(stream, difficulty)


def _prompt(stream: Stream, draft: Draft, difficulty: Difficulty) -> str:
    sentences = list(draft.sentences)
    if stream.chance(difficulty.distractors):
        sentences.insert(stream.between(0, len(sentences) - 1), draft.distractor)
    return f"Question: {' '.join(sentences)}\nAnswer:"
