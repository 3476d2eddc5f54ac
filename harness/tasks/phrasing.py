"""How a worked solution is worded: the same calculation in many sentences."""

from __future__ import annotations

from dataclasses import dataclass

from harness.tasks.streams import Stream

_FIRST = ("First,", "To start,", "We begin with", "At the start,", "Let us see:", "")
_LATER = ("Then", "Next,", "Now", "After that,", "So", "From there,", "")
_EQUALS = ("=", "=", "=", "is", "makes", "gives")
_SIGN_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_CLOSINGS = (
    "The answer is {n}.",
    "So the answer is {n}.",
    "In the end that is {n} {unit}.",
    "That leaves us with {n} {unit}.",
    "It is {n} {unit}.",
    "We are done.",
    "",
    "",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One calculation `left sign right = result`, with the unit of the result."""

    left: int
    sign: str
    right: int
    result: int
    unit: str


def worked_answer(steps: tuple[Step, ...], prompt: str) -> str:
    """The worked steps in words, ending in `#### n`.

    The wording is drawn from the prompt's own digest. So one prompt has one answer, and two
    wordings of the same question can never fall into different buckets.
    """
    stream = Stream("phrasing", prompt)
    sentences = [_sentence(step, first=not i, stream=stream) for i, step in enumerate(steps)]
    last = steps[-1]
    closing = stream.choice(_CLOSINGS).format(n=last.result, unit=last.unit)
    parts = [*sentences, *([closing] if closing else []), f"#### {last.result}"]
    return " " + " ".join(parts)


def _sentence(step: Step, *, first: bool, stream: Stream) -> str:
    opening = stream.choice(_FIRST if first else _LATER)
    sign = _SIGN_WORDS[step.sign] if stream.chance(20) else step.sign
    text = f"{step.left} {sign} {step.right} {stream.choice(_EQUALS)} {step.result}"
    if stream.chance(40):
        text = f"{text} {step.unit}"
    return f"{opening} {text}." if opening else f"{text}."
