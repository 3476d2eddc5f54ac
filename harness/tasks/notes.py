"""Short notes about people: text that is harder to predict than arithmetic.

A note tells a few facts, goes on with small events in words that vary, and comes back to one of
the facts at the end; so it needs the far context, but most of its wording is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.tasks import words
from harness.tasks.items import Item, make_item, only, unique
from harness.tasks.notes_grammar import CLOSINGS, EVENTS, FACTS, VALUES, expand
from harness.tasks.streams import Stream

FAMILY = "notes"


@dataclass(frozen=True, slots=True)
class Length:
    """How many facts open a note and how many events follow (both ranges include their ends)."""

    facts: tuple[int, int] = (2, 4)
    events: tuple[int, int] = (3, 7)


def draw(
    bucket: str, seed: str | int, count: int, length: Length | None = None
) -> tuple[Item, ...]:
    """`count` different notes of one bucket, the same ones for the same arguments."""
    return unique(endless(bucket, seed, length), count)


def endless(bucket: str, seed: str | int, length: Length | None = None) -> Iterator[Item]:
    """Notes of one bucket without end; content of every other bucket is rejected by digest."""
    return only(bucket, _candidates(seed, length or Length()))


def _candidates(seed: str | int, length: Length) -> Iterator[Item]:
    stream = Stream(FAMILY, seed)
    while True:
        yield note(stream, length)


def note(stream: Stream, length: Length) -> Item:
    """One note drawn from a stream, of any bucket: its facts are the prompt, the rest the answer.

    The rest is drawn from the prompt's own text, so that one prompt has one continuation.
    """
    first, second = stream.sample(words.NAMES, 2)
    kinds = stream.sample(tuple(FACTS), stream.between(*length.facts))
    facts = [(stream.choice((first, second)), kind, stream.choice(VALUES[kind])) for kind in kinds]
    told = [
        expand(stream.choice(FACTS[kind]), stream, who=who, value=value)
        for who, kind, value in facts
    ]
    count = stream.between(*length.events)
    prompt = f"Note: {' '.join(told)}"
    rest = _continuation(Stream("continuation", prompt), (first, second), facts, count)
    return make_item(FAMILY, kinds[0], prompt, rest)


def _continuation(
    stream: Stream, names: tuple[str, str], facts: list[tuple[str, str, str]], count: int
) -> str:
    sentences = []
    for _ in range(count):
        who, other = names if stream.chance(50) else names[::-1]
        sentences.append(expand(stream.choice(EVENTS), stream, who=who, other=other))
        if stream.chance(20):
            sentences.append(_recall(stream, facts))
    sentences.append(_recall(stream, facts))
    return " " + " ".join(sentences)


def _recall(stream: Stream, facts: list[tuple[str, str, str]]) -> str:
    who, kind, value = stream.choice(facts)
    return expand(stream.choice(CLOSINGS[kind]), stream, who=who, value=value)
