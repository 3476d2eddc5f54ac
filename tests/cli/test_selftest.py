"""`harness selftest`: what must hold of a node, its locks and a plan's engines."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.study import harness, ok, write_plans

LINE = "study: toy"


def test_a_node_passes_and_says_what_was_checked(tmp_path: Path) -> None:
    out = ok(tmp_path, "selftest").out
    assert "CR2 degrees of freedom" in out
    assert "one changed byte is noticed" in out


def test_a_plans_engines_test_themselves(study: Path) -> None:
    checks = json.loads(ok(study, "selftest", "conf=toy_confirm", "--json").out)
    names = {check["name"] for check in checks}
    assert "lock toy_confirm" in names
    assert {f"arms.{arm}: the same request gives the same tokens" for arm in ("pristine", "patched")
            } <= names  # fmt: skip


def test_an_engine_that_fails_its_self_test_is_not_ready(tmp_path: Path) -> None:
    write_plans(tmp_path)
    conf = tmp_path / "conf" / "toy_select.yaml"
    conf.write_text(
        conf.read_text().replace("speedup: 1.6", "selftest_fails: true"), encoding="utf-8"
    )
    result = harness(tmp_path, "selftest", "conf=toy_select")
    assert result.code == 8
    assert "failed arms.fast: the same request gives the same tokens" in result.out


def test_a_changed_lock_exits_as_changed(study: Path) -> None:
    conf = study / "conf" / "toy_confirm.yaml"
    conf.write_text(conf.read_text() + "\n# later\n", encoding="utf-8")
    result = harness(study, "selftest")
    assert result.code == 3
    assert "failed lock toy_confirm" in result.out


def test_an_unknown_plan_is_a_mistake_in_one_line(tmp_path: Path) -> None:
    result = harness(tmp_path, "selftest", "conf=nothing")
    assert (result.code, result.err.count("\n")) == (2, 1)
