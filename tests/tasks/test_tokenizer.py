"""Any text survives the tokenizer, and words cost one token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks.tokenizer import END, Tokenizer, TokenizerError, learn_words, load_tokenizer

SMALL = Tokenizer(["Question", " apples", "\nAnswer", " ####", " a"])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_round_trip_of_any_text(text: str) -> None:
    assert SMALL.decode(SMALL.encode(text)) == text


@pytest.mark.parametrize("text", ["Question: 12 apples\nAnswer: #### 12", " a a  a\n\n", "é €\0"])
def test_round_trip_of_known_text(text: str) -> None:
    assert SMALL.decode(SMALL.encode(text)) == text


def test_words_are_single_tokens_and_digits_too() -> None:
    assert SMALL.encode(" apples") == [258]
    assert SMALL.encode("12") == [ord("1"), ord("2")]
    assert len(SMALL.encode(" applesauce")) == len(" applesauce")


def test_end_is_silent_and_never_encoded() -> None:
    assert SMALL.decode([258, END]) == " apples"
    assert END not in SMALL.encode("any text\u0100")


def test_unknown_ids_and_double_words_are_refused() -> None:
    with pytest.raises(TokenizerError, match="token: found 262"):
        SMALL.decode([262])
    with pytest.raises(TokenizerError, match="twice"):
        Tokenizer([" a", " a"])
    with pytest.raises(TokenizerError, match="12"):
        Tokenizer(["12"])


def test_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    SMALL.save(path)
    assert load_tokenizer(path).words == SMALL.words
    path.write_text('{"format": "other"}')
    with pytest.raises(TokenizerError, match="format: found 'other'"):
        load_tokenizer(path)


def test_learned_words_come_most_frequent_first() -> None:
    assert learn_words(["b a a", "a c c"], 2) == (" a", " c")
