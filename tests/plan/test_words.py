"""The words after a subcommand."""

from __future__ import annotations

import pytest

from harness.plan.words import parse_words
from harness.store.errors import UsageError


@pytest.mark.parametrize("words", [["conf=a"], ["a"]])
def test_a_plan_is_named_with_or_without_conf(words: list[str]) -> None:
    assert parse_words(words).plan == "a"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["seed=1"],
        ["conf=[a,b]"],
        ["conf=a", "conf=b"],
        ["a", "conf=b"],
        ["conf=../conf/a"],
        ["conf=a.yaml"],
        ["conf=a", "~seed"],
        ["conf=a", "+sead=2"],
        ["conf=a", "++sead=2"],
        ["conf=a", "x=1", "x=1"],
        ["conf=a", "hydra.run.dir=x"],
        ["conf=a", "--flag"],
        ["conf="],
    ],
)
def test_anything_else_is_refused_in_one_line(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_words(words)
    assert "\n" not in str(caught.value)
