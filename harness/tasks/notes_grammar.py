"""The grammar of the notes: facts, events, recalls, and synonyms.

Braces are filled by `expand`: {who}, {other} and {value} by the note, every other name by one of
its synonyms, drawn anew at each place.
"""

from __future__ import annotations

import re

from harness.tasks.streams import Stream

VALUES: dict[str, tuple[str, ...]] = {
    "pet": ("cat", "dog", "parrot", "rabbit", "pony", "goose", "turtle", "hamster"),
    "colour": ("red", "green", "blue", "yellow", "white", "purple", "orange", "grey"),
    "food": ("soup", "rice", "bread", "cheese", "noodles", "pancakes", "salad", "pie"),
    "town": ("Oslo", "Lima", "Kyoto", "Cairo", "Turin", "Porto", "Delhi", "Quito"),
    "work": ("baker", "nurse", "painter", "teacher", "pilot", "farmer", "tailor", "cook"),
    "number": tuple(str(n) for n in range(12, 100, 7)),
}

FACTS: dict[str, tuple[str, ...]] = {
    "pet": ("{who} has a {value}.", "{who} lives with a {size} {value}."),
    "colour": ("{who} {likes} the colour {value}.", "The door of {who} is {value}."),
    "food": ("{who} {likes} {value}.", "For lunch {who} {always} has {value}."),
    "town": ("{who} lives in {value}.", "{who} comes from {value}."),
    "work": ("{who} works as a {value}.", "{who} wants to be a {value}."),
    "number": ("{who} has room {value}.", "The house of {who} has number {value}."),
}

CLOSINGS: dict[str, tuple[str, ...]] = {
    "pet": ("At home the {value} waits for {who}.", "{who} feeds the {value}."),
    "colour": ("{who} paints a wall in {value}.", "Of course the new hat of {who} is {value}."),
    "food": ("In the evening {who} cooks {value}.", "{who} orders {value} again."),
    "town": ("At last {who} goes back to {value}.", "{who} writes a letter home to {value}."),
    "work": ("Every {value} knows that, says {who}.", "Tomorrow {who} is a {value} again."),
    "number": ("The parcel for {who} goes to number {value}.", "{who} looks for the key {value}."),
}

EVENTS: tuple[str, ...] = (
    "{who} {walks} to the {place} and {meets} {other}.",
    "{when} it {rains}, so {who} {stays} at the {place}.",
    "{who} {asks} {other} about the {object}.",
    "{other} {lost} a {size} {object} near the {place}.",
    "{when} {who} {finds} a {size} {object}.",
    "They {talk} about the {object} for {span}.",
    "{who} and {other} {walk} to the {place} together.",
    "The {object} is {state}, and {who} is {mood} about it.",
    "{when} {other} {brings} the {object} to {who}.",
    "{who} {thinks} that the {place} is too {state}.",
    "For {span} nothing happens at the {place}.",
    "{other} is {mood}, because the {object} is {state}.",
)

SYNONYMS: dict[str, tuple[str, ...]] = {
    "likes": ("likes", "loves", "prefers", "enjoys"),
    "always": ("always", "often", "mostly"),
    "size": ("small", "big", "tiny", "huge", "plain", "young", "quiet"),
    "walks": ("walks", "runs", "drives", "cycles", "goes"),
    "walk": ("walk", "run", "drive", "cycle", "go"),
    "meets": ("meets", "sees", "greets", "calls", "misses"),
    "when": ("Later", "Then", "At noon", "In the evening", "Soon", "Next day", "Suddenly"),
    "rains": ("rains", "snows", "is hot", "is cold", "gets dark"),
    "stays": ("stays", "waits", "sleeps", "reads", "works"),
    "asks": ("asks", "tells", "reminds", "warns"),
    "lost": ("lost", "hid", "left", "broke", "saw"),
    "finds": ("finds", "buys", "repairs", "draws", "sells"),
    "brings": ("brings", "shows", "sends", "lends"),
    "talk": ("talk", "laugh", "argue", "dream", "sing"),
    "thinks": ("thinks", "says", "hopes", "fears"),
    "span": ("an hour", "two days", "a long time", "a week", "a minute"),
    "state": ("broken", "clean", "empty", "heavy", "wet", "loud", "new"),
    "mood": ("happy", "sad", "tired", "proud", "angry", "glad"),
    "place": ("park", "harbour", "school", "garden", "library", "station", "museum", "farm"),
    "object": ("lamp", "map", "letter", "ladder", "violin", "basket", "kite", "boat", "clock"),
}

_SLOT = re.compile(r"\{(\w+)\}")


def expand(pattern: str, stream: Stream, **given: str) -> str:
    """The pattern with every slot filled, and a capital at the start."""

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        return given[name] if name in given else stream.choice(SYNONYMS[name])

    text = _SLOT.sub(fill, pattern)
    return text[0].upper() + text[1:]
