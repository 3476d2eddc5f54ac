"""Finding and comparing the final number of an answer.

The rule, the same for every arm:

1. Full-width characters become plain ones (NFKC), and the minus U+2212 and its relatives `-`.
2. Where `####` is followed by a number (blanks and a currency sign may stand between), the last
   such mark decides. A mark without a number does not count.
3. Else the last number of the text decides, unless only marked answers are asked for.
4. A number is: an optional minus, an optional currency sign (in either order), digits with
   commas only between groups of three, optional decimals, or a fraction of two whole numbers. A
   minus right after a digit, a letter or a closing bracket is a subtraction, not a sign. Percent
   signs and units are ignored.
5. Numbers are compared as exact fractions: 18.00 equals 18, 1/2 equals 0.5.
6. No number at all is `no_answer`, which is not the same as `wrong`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

MARKED = "marked"
LAST_NUMBER = "last_number"

RIGHT = "right"
WRONG = "wrong"
NO_ANSWER = "no_answer"

_CURRENCY = "$€£¥"
_MINUS = dict.fromkeys(map(ord, "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"), "-")
_NUMBER = (
    rf"(?:(?<![\w).])(?P<sign>-)[ ]?)?[{_CURRENCY}]?(?P<late>(?<=[{_CURRENCY}])-)?"
    r"(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
    r"(?:(?P<decimals>\.\d+)|[ ]?/[ ]?(?P<under>\d+)(?![\d.]))?"
)
_ANY = re.compile(_NUMBER, re.ASCII)
_MARK = re.compile(r"####\s*" + _NUMBER, re.ASCII)


@dataclass(frozen=True, slots=True)
class Answer:
    """A number that was found, how, and the characters it was read from."""

    value: Fraction
    how: str
    text: str


def extract(text: str, *, marked_only: bool = False) -> Answer | None:
    """The answer of a text after the rule above, or None when it holds no number."""
    plain = normalise(text)
    marked = _last(_MARK, plain, MARKED)
    if marked is not None or marked_only:
        return marked
    return _last(_ANY, plain, LAST_NUMBER)


def score(text: str, reference: str, *, marked_only: bool = False) -> str:
    """'right', 'wrong' or 'no_answer'. Raises ValueError for a reference without a number."""
    expected = extract(reference)
    if expected is None:
        raise ValueError(f"reference: found no number in {reference!r}, expected '#### n'")
    found = extract(text, marked_only=marked_only)
    if found is None:
        return NO_ANSWER
    return RIGHT if found.value == expected.value else WRONG


def normalise(text: str) -> str:
    """The text with compatibility characters made plain and one kind of minus."""
    return unicodedata.normalize("NFKC", text.translate(_MINUS)).translate(_MINUS)


def _last(pattern: re.Pattern[str], text: str, how: str) -> Answer | None:
    found = None
    for match in pattern.finditer(text):
        value = _value(match)
        if value is not None:
            found = Answer(value, how, match.group())
    return found


def _value(match: re.Match[str]) -> Fraction | None:
    whole = match["whole"].replace(",", "")
    value = Fraction(whole + (match["decimals"] or ""))
    if match["under"] is not None:
        if int(match["under"]) == 0:
            return None
        value /= int(match["under"])
    return -value if match["sign"] or match["late"] else value
