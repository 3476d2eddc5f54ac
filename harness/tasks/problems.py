"""What a problem says and how it is solved: one writer for each template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.tasks import words
from harness.tasks.phrasing import Step
from harness.tasks.streams import Stream
from harness.tasks.templates import CHAINS, DISTRACTORS, Chain


@dataclass(frozen=True, slots=True)
class Draft:
    """The sentences of a problem (the question last), its solution, and a sentence of no use."""

    sentences: tuple[str, ...]
    steps: tuple[Step, ...]
    distractor: str


Writer = Callable[[Stream, int, int], Draft | None]


def _cast(stream: Stream) -> dict[str, str]:
    who, other, third = stream.sample(words.NAMES, 3)
    return {
        "who": who,
        "other": other,
        "third": third,
        "thing": stream.choice(words.THINGS),
        "box": stream.choice(words.BOXES),
        "place": stream.choice(words.PLACES),
        "day": stream.choice(words.DAYS),
        "y": str(stream.between(2, 40)),
    }


def _finish(stream: Stream, cast: dict[str, str], sentences: list[str], steps: list[Step]) -> Draft:
    distractor = stream.choice(DISTRACTORS).format(**cast)
    return Draft(tuple(sentences), tuple(steps), distractor)


def _operand(stream: Stream, sign: str, value: int, limit: int) -> int | None:
    """A number that keeps the result within 1..limit, or None where there is none."""
    if sign == "/":
        divisors = [k for k in range(2, 10) if value % k == 0 and value // k >= 2]
        return stream.choice(divisors) if divisors else None
    low, high = {
        "+": (2, limit - value),
        "-": (2, value - 1),
        "*": (2, min(9, limit // value)),
    }[sign]
    return stream.between(low, high) if low <= high else None


_RESULTS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
}


def _step(left: int, sign: str, right: int, unit: str) -> Step:
    return Step(left, sign, right, _RESULTS[sign](left, right), unit)


def _size(stream: Stream, limit: int) -> int:
    """A number up to the limit; small ones as likely as large ones."""
    high = limit
    while high > 30 and stream.chance(35):
        high //= 3
    return stream.between(2, high)


def _chain(template: Chain, stream: Stream, count: int, limit: int) -> Draft | None:
    cast = _cast(stream)
    value = _size(stream, limit)
    sentences = [stream.choice(template.openings).format(n=value, **cast)]
    unit = template.unit.format(**cast)
    steps: list[Step] = []
    for index in range(count):
        sign = stream.choice(tuple(template.events))
        # Times and shares read naturally only right after the opening.
        if sign in "*/" and index > 0 and template.name in ("boxes", "money", "share"):
            sign = "-"
        operand = _operand(stream, sign, value, limit)
        if operand is None:
            return None
        steps.append(_step(value, sign, operand, unit))
        sentences.append(stream.choice(template.events[sign]).format(x=operand, **cast))
        value = steps[-1].result
    sentences.append(stream.choice(template.questions).format(**cast))
    return _finish(stream, cast, sentences, steps)


def _prices(stream: Stream, count: int, limit: int) -> Draft | None:
    """Several goods at several prices; the last step is the change where there are enough steps."""
    cast = _cast(stream)
    good, other_good = stream.sample(words.GOODS, 2)
    first, second = _size(stream, limit // 2), _size(stream, limit // 2)
    shop = stream.choice(words.SHOPS)
    who = cast["who"]
    sentences = [
        f"At the {shop} a {good} costs {first} dollars and a {other_good} costs {second} dollars."
    ]
    steps: list[Step] = []
    many = 1
    if count >= 2:
        many = stream.between(2, 6)
        steps.append(_step(first, "*", many, "dollars"))
        first = steps[-1].result
    steps.append(_step(first, "+", second, "dollars"))
    total = steps[-1].result
    noun = f"{many} {good}s" if many > 1 else f"one {good}"
    sentences.append(f"{who} buys {noun} and one {other_good}.")
    if total > limit or count > 4:
        return None
    if count == 2:
        sentences.append(f"How many dollars does {who} pay?")
        return _finish(stream, cast, sentences, steps)
    for _ in range(count - len(steps)):
        sign = stream.choice("+-")
        operand = _operand(stream, sign, total, limit)
        if operand is None:
            return None
        steps.append(_step(total, sign, operand, "dollars"))
        total = steps[-1].result
        phrase = (
            "For the transport {who} pays {x} dollars more."
            if sign == "+"
            else ("{other} pays {x} dollars of it.")
        )
        sentences.append(phrase.format(x=operand, **cast))
    sentences.append(f"How many dollars does {who} pay in all?")
    return _finish(stream, cast, sentences, steps)


def _compare(stream: Stream, count: int, limit: int) -> Draft | None:
    """People compared with one another; from three steps on, their sum is asked for."""
    cast = _cast(stream)
    who, other, third = cast["who"], cast["other"], cast["third"]
    thing = cast["thing"]
    value = _size(stream, limit // 2)
    sentences = [f"{who} has {value} {thing}."]
    steps: list[Step] = []
    held = [value]
    people = [who, other, third]
    compares = {1: 1, 2: 2, 3: 2, 4: 2}.get(count)
    if compares is None:
        return None
    for index in range(compares):
        sign = stream.choice("+-*")
        operand = _operand(stream, sign, held[-1], limit)
        if operand is None:
            return None
        steps.append(_step(held[-1], sign, operand, thing))
        held.append(steps[-1].result)
        relation = {"+": "{x} more {thing} than", "-": "{x} {thing} fewer than"}.get(
            sign, "{x} times as many {thing} as"
        )
        relation = relation.format(x=operand, thing=thing)
        sentences.append(f"{people[index + 1]} has {relation} {people[index]}.")
    if count < 3:
        sentences.append(f"How many {thing} does {people[compares]} have?")
        return _finish(stream, cast, sentences, steps)
    addends = held[1:] if count == 3 else held
    total = addends[0]
    for addend in addends[1:]:
        steps.append(_step(total, "+", addend, thing))
        total = steps[-1].result
    if total > limit:
        return None
    owners = f"{other} and {third}" if count == 3 else "all three"
    sentences.append(f"How many {thing} do {owners} have together?")
    return _finish(stream, cast, sentences, steps)


WRITERS: tuple[tuple[str, Writer], ...] = (
    *((chain.name, partial(_chain, chain)) for chain in CHAINS),
    ("prices", _prices),
    ("compare", _compare),
)
