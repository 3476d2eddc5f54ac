"""The rule ranks, keeps every figure and every reason, and never guesses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plan.schema import Selection
from harness.prereg.selection import check_candidates, rank, winner
from harness.store.errors import RefusedError, UsageError
from tests.prereg import study as build


def selection(goal: str = "maximize", names: str = "abc", **bounds: Any) -> Selection:
    subject = [{"metric": name, **bound} for name, bound in bounds.items()]
    return Selection.model_validate({
        "from": "select_x",
        "candidates": [{"arm": name} for name in names],
        "rule": {goal: "speed", "subject_to": subject},
    })  # fmt: skip


def ranks(rule: Selection, figures: dict[str, dict[str, Any]]) -> dict[str, int | None]:
    return {one.arm: one.rank for one in rank(rule, figures)}


FIGURES = {
    "a": {"speed": 1.0, "match": 1.0},
    "b": {"speed": 3.0, "match": 0.5},
    "c": {"speed": 2.0, "match": 1},
}


def test_the_best_admissible_candidate_wins() -> None:
    assert ranks(selection(), FIGURES) == {"a": 3, "b": 1, "c": 2}
    assert ranks(selection("minimize"), FIGURES) == {"a": 1, "b": 3, "c": 2}
    found = rank(selection(match={"at_least": 0.9}), FIGURES)
    assert winner("x", found) == "c"
    assert found[1].reason == "match: found 0.5, expected at least 0.9"
    assert found[1].metrics == FIGURES["b"]


def test_a_bound_includes_its_end() -> None:
    assert ranks(selection(match={"at_least": 0.5}), FIGURES)["b"] == 1
    assert ranks(selection(match={"at_most": 0.5}), FIGURES) == {"a": None, "b": 1, "c": None}


def test_of_equals_the_earlier_wins() -> None:
    same = {name: {"speed": 2.0} for name in "abc"}
    assert ranks(selection(), same) == {"a": 1, "b": 2, "c": 3}
    assert ranks(selection(names="cab"), same) == {"c": 1, "a": 2, "b": 3}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.95", True, None])
def test_what_is_no_number_is_inadmissible_with_its_cause(value: object) -> None:
    found = rank(selection(), FIGURES | {"b": {"speed": value, "match": 1.0}})
    assert (found[1].admissible, found[1].rank) == (False, None)
    assert found[1].reason is not None and found[1].reason.startswith("speed: found ")
    assert "speed" not in found[1].metrics


def test_a_missing_figure_is_inadmissible() -> None:
    found = rank(selection(), {"a": {"speed": 1.0}, "c": {}})
    assert [one.reason for one in found] == [None, "speed: no figure", "speed: no figure"]


def test_no_admissible_candidate_is_refused_with_every_reason() -> None:
    found = rank(selection(match={"at_least": 2.0}), FIGURES)
    with pytest.raises(RefusedError, match=r"a: match: found 1.*b: match.*c: match"):
        winner("confirm_x", found)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_the_winner_is_the_first_maximum(speeds: list[float]) -> None:
    names = "abcdefgh"[: len(speeds)]
    figures = {name: {"speed": speed} for name, speed in zip(names, speeds, strict=True)}
    found = rank(selection(names=names), figures)
    assert winner("x", found) == names[speeds.index(max(speeds))]
    assert sorted(one.rank or 0 for one in found) == list(range(1, len(speeds) + 1))


def test_candidates_must_be_arms_that_were_measured() -> None:
    confirm, source = build.plan(build.CONFIRM), build.plan(build.SELECT)
    check_candidates(confirm, source)
    assert confirm.selection is not None
    values = confirm.selection.model_dump(by_alias=True, exclude_none=True)
    for names, message in ((["w9"], "w9: not an arm"), (["w0", "w0"], "w0: appears twice")):
        values["candidates"] = [{"arm": name, "window": 0} for name in names]
        with pytest.raises(UsageError, match=message):
            check_candidates(build.plan(build.CONFIRM, selection=values), source)
