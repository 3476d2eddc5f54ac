"""Items: buckets, determinism, and correct arithmetic."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from harness.tasks import arithmetic, notes
from harness.tasks.answers import extract
from harness.tasks.arithmetic import Difficulty
from harness.tasks.corpus import documents, packed, vocabulary
from harness.tasks.items import BUCKETS, Item, ItemError, bucket, content_digest, make_item, only
from harness.tasks.streams import Stream
from harness.tasks.tokenizer import END

# Items are data of frozen plans: these values must never change.
FROZEN = (17750755039969069363, 8827412021913028243)
ITEMS_DIGEST = "235db139291181c34f382bdc0058e5180e1057701ac0129af06ff84f1d281569"

SIGNS = {"+": "+", "-": "-", "*": "*", "/": "//", "plus": "+", "minus": "-", "times": "*"}
SIGNS["divided by"] = "//"
STEP = re.compile(r"(\d+) (\+|-|\*|/|plus|minus|times|divided by) (\d+) (?:=|is|makes|gives) (\d+)")
APPLY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
}


@pytest.mark.parametrize("name", BUCKETS)
def test_drawn_items_lie_in_their_bucket_only(name: str) -> None:
    for item in (*arithmetic.draw(name, 1, 40), *notes.draw(name, 1, 40)):
        assert bucket(content_digest(item.prompt, item.answer)) == name


def test_other_buckets_are_rejected_by_content() -> None:
    items = [make_item("x", "t", f"q{i}", "a") for i in range(400)]
    kept = list(only("train", iter(items)))
    assert kept == [item for item in items if item.bucket == "train"]
    assert 230 < len(kept) < 330
    with pytest.raises(ItemError, match="bucket: found 'test'"):
        only("test", iter(items))


def test_training_text_is_train_bucket_only() -> None:
    assert {item.bucket for item in islice(documents(3), 300)} == {"train"}


def test_buckets_have_their_shares() -> None:
    found = [bucket(content_digest("q", str(i))) for i in range(4000)]
    shares = {name: found.count(name) / 4000 for name in BUCKETS}
    assert shares == pytest.approx(
        {"train": 0.7, "explore": 0.1, "select": 0.1, "confirm": 0.1}, abs=0.03
    )


def test_draws_are_unique_repeatable_and_seeded() -> None:
    first = arithmetic.draw("confirm", 5, 200)
    assert first == arithmetic.draw("confirm", 5, 200)
    assert len({item.digest for item in first}) == 200
    assert len({item.prompt for item in first}) == 200
    assert first != arithmetic.draw("confirm", 6, 200)


def test_stream_is_frozen() -> None:
    stream = Stream("frozen", 1)
    assert [stream.word() for _ in range(2)] == [FROZEN[0], FROZEN[1]]


def test_items_are_frozen() -> None:
    digest = content_digest(
        "".join(item.prompt + item.answer for item in arithmetic.draw("explore", 0, 20)),
        "".join(item.prompt + item.answer for item in notes.draw("explore", 0, 20)),
    )
    assert digest == ITEMS_DIGEST


def _calculations(item: Item) -> list[tuple[int, str, int, int]]:
    return [(int(a), SIGNS[s], int(b), int(c)) for a, s, b, c in STEP.findall(item.answer)]


@pytest.mark.parametrize("limit", [99, 299, 999])
def test_worked_steps_are_right(limit: int) -> None:
    for item in arithmetic.draw("train", limit, 300, Difficulty((1, 4), limit)):
        steps = _calculations(item)
        assert 1 <= len(steps) <= 4
        assert all(APPLY[sign](a, b) == c for a, sign, b, c in steps), item
        assert max(max(a, b, c) for a, _, b, c in steps) <= limit
        found = extract(item.answer)
        assert found is not None and found.value == steps[-1][3]


def test_difficulty_sets_the_number_of_steps() -> None:
    for item in arithmetic.draw("train", 2, 100, Difficulty((3, 3), 299)):
        assert len(_calculations(item)) == 3


def test_there_are_enough_templates() -> None:
    items = arithmetic.draw("train", 0, 300)
    assert len({item.template for item in items}) >= 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": (0, 2)}, "steps: found"),
        ({"max_number": 3}, "max_number: found 3"),
        ({"distractors": 101}, "distractors: found 101"),
    ],
)
def test_impossible_difficulties_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ItemError, match=message):
        Difficulty(**values)  # type: ignore[arg-type]


def test_packed_rows_depend_on_their_arguments_only() -> None:
    tokenizer = vocabulary(0, documents_read=200)
    ids, weights = packed(1, 7, 3, 160, tokenizer)
    assert (ids, weights) == packed(1, 7, 3, 160, tokenizer)
    assert ids != packed(1, 8, 3, 160, tokenizer)[0]
    assert [len(row) for row in ids + weights] == [161] * 6
    assert all(END in row for row in ids)
    assert {w for row in weights for w in row} == {0.2, 0.5, 1.0}


def test_focus_changes_the_weights_of_results_only_by_place() -> None:
    tokenizer = vocabulary(0, documents_read=200)
    ids, _ = packed(1, 7, 3, 160, tokenizer)
    focused, weights = packed(1, 7, 3, 160, tokenizer, focus=True)
    assert focused == ids
    heavy = [
        tokenizer.decode([token])
        for row, masses in zip(ids, weights, strict=True)
        for token, mass in zip(row, masses, strict=True)
        if mass == 4.0
    ]
    assert len(heavy) > 10
    assert all(text.isdigit() for text in heavy)
