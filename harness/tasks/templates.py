"""The templates of the worded arithmetic problems, as data.

A chain template starts from one quantity and changes it event by event; the question asks for
what is left. Placeholders: {who}, {other}, {thing}, {box}, {place}, {n} (first number), {x} (the
event's number), {day}.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chain:
    """Sentences of one template; `events` maps a sign to the sentences that mean it."""

    name: str
    unit: str
    openings: tuple[str, ...]
    events: dict[str, tuple[str, ...]]
    questions: tuple[str, ...]


CHAINS = (
    Chain(
        "collect",
        "{thing}",
        ("{who} has {n} {thing}.", "At first {who} owns {n} {thing}.", "There are {n} {thing}."),
        {
            "+": (
                "{who} finds {x} more.",
                "{other} gives {x} {thing} to {who}.",
                "Then {x} more {thing} come from {other}.",
            ),
            "-": (
                "{who} gives {x} to {other}.",
                "{who} loses {x} of the {thing}.",
                "Then {other} takes {x} {thing} away.",
            ),
            "*": ("Then the number of {thing} grows to {x} times as many.",),
        },
        (
            "How many {thing} does {who} have now?",
            "How many {thing} are left?",
            "What is the number of {thing} in the end?",
        ),
    ),
    Chain(
        "pages",
        "pages",
        ("{who} reads {n} pages on {day}.", "On {day} {who} reads {n} pages of a long book."),
        {
            "+": (
                "The next day {who} reads {x} pages.",
                "Later {who} reads another {x} pages.",
                "In the evening {x} pages more are read.",
            ),
            "*": ("In the whole week {who} reads {x} times as many pages as that.",),
            "-": ("But {x} of these pages were read twice and do not count.",),
        },
        ("How many pages did {who} read in all?", "How many pages is that in total?"),
    ),
    Chain(
        "boxes",
        "{thing}",
        (
            "Each of the {box} holds {n} {thing}.",
            "{who} packs {n} {thing} into each of the {box}.",
        ),
        {
            "*": ("There are {x} {box} like that.", "{who} fills {x} of these {box}."),
            "-": (
                "On the way {x} {thing} are broken.",
                "{other} buys {x} {thing}.",
                "Then {x} of the {thing} are sold at the {place}.",
            ),
            "+": (
                "Another {x} loose {thing} are on a table.",
                "{other} brings {x} more {thing}.",
            ),
        },
        (
            "How many {thing} are there now?",
            "How many {thing} does {who} have at the end?",
        ),
    ),
    Chain(
        "money",
        "dollars",
        (
            "{who} saves {n} dollars each week.",
            "{who} gets {n} dollars for one day of work at the {place}.",
        ),
        {
            "*": ("{who} does so {x} times.", "This goes on for {x} weeks."),
            "-": (
                "Then {who} spends {x} dollars at the {place}.",
                "{who} pays {x} dollars back to {other}.",
                "A new coat costs {who} {x} dollars.",
            ),
            "+": (
                "{other} adds {x} dollars as a gift.",
                "An old chair is sold for {x} dollars.",
            ),
        },
        (
            "How many dollars does {who} have now?",
            "How much money is left, in dollars?",
        ),
    ),
    Chain(
        "trip",
        "miles",
        (
            "{who} drives {n} miles on {day}.",
            "A trip from the {place} to the sea starts with {n} miles by train.",
        ),
        {
            "+": (
                "After a rest {who} goes on for {x} miles.",
                "The next part is {x} miles long.",
                "A detour adds {x} miles.",
            ),
            "-": ("A new bridge makes the way {x} miles shorter.",),
            "*": ("{who} makes this trip {x} times.",),
        },
        ("How many miles does {who} travel?", "How long is the way in miles?"),
    ),
    Chain(
        "share",
        "{thing}",
        (
            "{who} and {other} collect {n} {thing} at the {place}.",
            "A class has {n} {thing}.",
        ),
        {
            "/": (
                "They are shared equally among {x} children.",
                "All are put into {x} equal piles and only one pile is kept.",
            ),
            "+": ("Then {x} more {thing} are found.", "{other} adds {x} {thing}."),
            "-": ("Then {x} {thing} get lost.", "{other} keeps {x} of them."),
            "*": ("A friend brings enough to make it {x} times as many.",),
        },
        (
            "How many {thing} are there in the end?",
            "How many {thing} does each one hold?",
        ),
    ),
)

DISTRACTORS = (
    "{other} is {y} years old.",
    "The {place} opens at {y}.",
    "It is a {day}.",
    "{other} has a red bicycle with {y} gears.",
    "The {place} is {y} miles away.",
    "{other} would rather go to the {place}.",
    "A bus with {y} seats goes by.",
)
