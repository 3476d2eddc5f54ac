"""`harness show`: levels and chances are those of the attempt that the plan is, or would be."""

from __future__ import annotations

import json
from pathlib import Path

from harness.cli.show import attempt_at, decisions
from harness.plan.compose import compose
from harness.store.paths import Project
from tests.cli.study import harness, ok, write_plans

ROOT = Project(Path(__file__).parents[2])


def test_a_second_attempt_is_shown_at_its_own_level() -> None:
    first, second = (compose(ROOT, plan).plan for plan in ("confirm_raven", "confirm_raven_2"))
    assert (attempt_at(ROOT, first), attempt_at(ROOT, second)) == (1, 2)
    assert decisions(first, 1)[0]["level"] == "0.95"
    again = decisions(second, 2)[0]
    assert again["level"] == "0.975"
    assert again["chance_if_no_effect"] < decisions(second, 1)[0]["chance_if_no_effect"]
    third = second.model_copy(update={"plan": "confirm_raven_3"})
    assert attempt_at(ROOT, third) == 3


def test_before_the_freeze_it_says_so(tmp_path: Path) -> None:
    write_plans(tmp_path)
    assert (
        "attempt  1 on toy_candidates, if it were frozen now"
        in ok(tmp_path, "show", "toy_select").out
    )
    ok(tmp_path, "freeze", "conf=toy_select")
    assert "if it were frozen now" not in ok(tmp_path, "show", "toy_select").out
    assert json.loads(ok(tmp_path, "show", "toy_select", "--json").out)["attempt"] == 1


def test_a_damaged_ledger_gives_no_attempt(tmp_path: Path) -> None:
    write_plans(tmp_path)
    ok(tmp_path, "freeze", "conf=toy_select")
    record = next((tmp_path / "ledgers" / "toy").glob("*.json"))
    record.write_bytes(record.read_bytes().replace(b"toy_select", b"toy_sELECT"))
    result = harness(tmp_path, "show", "toy_confirm")
    assert (result.code, result.err.count("\n")) == (5, 1)
