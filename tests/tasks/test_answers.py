"""The answer rule, case by case."""

from __future__ import annotations

from fractions import Fraction

import pytest

from harness.tasks.answers import LAST_NUMBER, MARKED, NO_ANSWER, RIGHT, WRONG, extract, score

CASES = [
    ("#### 18", 18, MARKED),
    ("####18", 18, MARKED),
    ("#### $18", 18, MARKED),
    ("#### 18.00", 18, MARKED),
    ("#### 18.", 18, MARKED),
    ("#### 1,234", 1234, MARKED),
    ("#### 1,234,567.50", Fraction(2469135, 2), MARKED),
    ("#### -5", -5, MARKED),
    ("#### \u22125", -5, MARKED),
    ("#### -$5", -5, MARKED),
    ("#### $-5", -5, MARKED),
    ("#### 1/2", Fraction(1, 2), MARKED),
    ("#### 0.5", Fraction(1, 2), MARKED),
    ("#### 50%", 50, MARKED),
    ("#### 18 apples", 18, MARKED),
    ("#### \uff11\uff18", 18, MARKED),
    ("\uff03\uff03\uff03\uff03 18", 18, MARKED),
    ("####\n18", 18, MARKED),
    ("#### 3 and then #### 18", 18, MARKED),
    ("#### 3 and then ####", 3, MARKED),
    ("17 apples. #### 18. That was 19.", 18, MARKED),
    ("... 18 ...", 18, LAST_NUMBER),
    ("It is $29.00.", 29, LAST_NUMBER),
    ("72 clips, altogether.", 72, LAST_NUMBER),
    ("10-5", 5, LAST_NUMBER),
    ("10 - 5 = 5", 5, LAST_NUMBER),
    ("that makes 1,23", 23, LAST_NUMBER),
    ("in all 12,345.", 12345, LAST_NUMBER),
    ("#### none, but 7", 7, LAST_NUMBER),
]


@pytest.mark.parametrize(("text", "value", "how"), CASES)
def test_number_is_found(text: str, value: Fraction, how: str) -> None:
    found = extract(text)
    assert found is not None
    assert (found.value, found.how) == (value, how)


@pytest.mark.parametrize("text", ["", "####", "no number here", "#### $", "#### 1/0"])
def test_text_without_a_number_has_no_answer(text: str) -> None:
    assert extract(text) is None
    assert score(text, "#### 4") == NO_ANSWER


def test_marked_only_ignores_loose_numbers() -> None:
    assert extract("the answer is 18", marked_only=True) is None
    assert score("the answer is 18", "#### 18", marked_only=True) == NO_ANSWER
    assert score("the answer is 18", "#### 18") == RIGHT


def test_right_and_wrong() -> None:
    assert score("so #### 18.0", "steps #### 18") == RIGHT
    assert score("so #### 19", "steps #### 18") == WRONG


def test_reference_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="reference"):
        score("#### 1", "nothing")
