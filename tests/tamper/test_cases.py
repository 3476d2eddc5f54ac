"""The documented table of cases is the one that the tests give, and no case is without a test."""

from __future__ import annotations

from tests.tamper import table


def test_every_case_has_a_test() -> None:
    assert sorted(table.tests()) == list(range(1, 36)) == list(table.CASES)


def test_the_page_says_which_test_holds_which_case() -> None:
    assert table.table() in table.PAGE.read_text(encoding="utf-8")
