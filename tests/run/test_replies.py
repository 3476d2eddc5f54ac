"""Replies of workers are checked before anything of them is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from harness.run import replies
from harness.run.process import WorkerReplyError

ANSWER: dict[str, Any] = {
    "item": "a", "status": "ok", "token_ids": [1, 2], "text": "x", "prompt_tokens": 3,
    "finish": "stop", "counters": {"passes": 2}, "cache_bytes": 64,
}  # fmt: skip


def results(*entries: Any, wanted: tuple[str, ...] = ("a",)) -> list[dict[str, Any]]:
    return replies.results({"results": list(entries)}, wanted)


def test_what_is_known_is_kept_and_the_rest_is_ignored() -> None:
    (kept,) = results({**ANSWER, "colour": "red", "near_ties": [[1, 1e-7]], "text": "a\ud800"})
    assert kept == {
        "status": "ok", "token_ids": [1, 2], "text": "a?", "prompt_tokens": 3, "finish": "stop",
        "counters": {"passes": 2}, "cache_bytes": "64", "near_ties": [[1, 1e-7]],
    }  # fmt: skip
    assert "near_ties" not in results(ANSWER)[0]


def test_results_come_in_the_order_asked_for() -> None:
    other = {**ANSWER, "item": "b", "text": "y"}
    assert [r["text"] for r in results(other, ANSWER, wanted=("a", "b"))] == ["x", "y"]


@pytest.mark.parametrize(
    "change",
    [
        {"item": "b"}, {"status": "fine"}, {"token_ids": None}, {"token_ids": [1.5]},
        {"token_ids": [True]}, {"text": 3}, {"prompt_tokens": -1}, {"counters": []},
        {"counters": {"passes": 2**53}}, {"cache_bytes": "64"}, {"near_ties": [1]},
        {"near_ties": 5}, {"near_ties": [[0, "small"]]},
    ],
)  # fmt: skip
def test_malformed_results_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(WorkerReplyError) as caught:
        results({**ANSWER, **change})
    assert "\n" not in str(caught.value)


def test_missing_and_repeated_items_are_refused() -> None:
    for found in ([], [ANSWER, ANSWER]):
        with pytest.raises(WorkerReplyError, match="expected the items asked for"):
            results(*found)
