"""`harness ab`: two programs or two arms, with an A/A, an interval, threats and the way on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.study import harness, ok, write_plans
from tests.run.drill import ROOT

ENGINE = (ROOT / "examples" / "own_engine.py").read_text("utf-8")
WALL, CPU = "time.monotonic_ns() - wall", "time.thread_time_ns() - cpu"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Two engines with virtual times, the second twice as fast; a third with other answers."""
    noise = "(1 + hash(request['items'][0]['prompt']) % 97 / 5000)"
    for name, ns in (("slow.py", 2_000_000), ("fast.py", 1_000_000)):
        text = ENGINE.replace(WALL, f"round({ns} * {noise})").replace(CPU, f"round({ns} * {noise})")
        (tmp_path / name).write_text(text)
    text = (tmp_path / "fast.py").read_text().replace(".upper()", ".lower()")
    (tmp_path / "other.py").write_text(text)
    return tmp_path


def duel(folder: Path, first: str, second: str, *options: str) -> dict[str, object]:
    words = ("ab", "--json", "--seconds", "0.1", *options, "--", "python", first, "--", "python")
    found: dict[str, object] = json.loads(ok(folder, *words, second).out)
    return found


def test_two_programs_are_compared_within_the_time(programs: Path) -> None:
    before = sorted(programs.iterdir())
    out = ok(
        programs, "ab", "--seconds", "0.1", "--", "python", "slow.py", "--", "python", "fast.py"
    )
    assert "starts a: python slow.py" in out.err
    assert "fixed now" in out.err
    assert "b is 2.0" in out.out
    assert "A/A, a against itself: 1.000" in out.out
    assert "nothing was frozen" in out.out
    assert "to make this citable: harness ab --write PLAN" in out.out
    assert sorted(programs.iterdir()) == before


def test_equal_programs_and_lost_quality_are_called_so(programs: Path) -> None:
    equal = duel(programs, "slow.py", "slow.py")
    assert any("no larger than what two starts" in str(one) for one in equal["threats"])  # type: ignore[attr-defined]
    other = duel(programs, "slow.py", "other.py")
    assert other["same_tokens"]["estimate"] == 0  # type: ignore[index]
    assert any("paid for in quality" in str(one) for one in other["threats"])  # type: ignore[attr-defined]
    assert other["citable"] is False


def test_a_duel_becomes_a_plan_that_freezes_and_runs(programs: Path) -> None:
    found = duel(programs, "slow.py", "fast.py", "--write", "mine", "--items", "2")
    assert found["plan"] == "mine"
    ok(programs, "freeze", "conf=mine")
    out = ok(programs, "run", "conf=mine").out
    assert "held" in out
    again = harness(programs, "ab", "--seconds", "0.1", "--write", "mine", "--", "python",
                    "slow.py", "--", "python", "fast.py")  # fmt: skip
    assert (again.code, "exists already" in again.err) == (2, True)


def test_two_arms_of_a_plan_are_compared(tmp_path: Path) -> None:
    write_plans(tmp_path)
    words = ("ab", "pristine", "fast", "conf=toy_select", "--seconds", "0.1", "--json")
    found = json.loads(ok(tmp_path, *words).out)
    assert found["wall"]["low"] < 1.6 < found["wall"]["high"]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--", "python", "slow.py"], 2),
        (["--", "--", "python", "slow.py"], 2),
        (["--", "python", "slow.py", "--"], 2),
        (["--seconds", "0", "--", "a", "--", "b"], 2),
        (["fast", "wild", "conf=toy_select"], 2),
        (["fast", "nobody", "conf=toy_select"], 2),
        (["fast", "--", "a", "--", "b"], 2),
        (["--", "no-such-program", "--", "python", "slow.py"], 8),
        (["--seconds", "0.1", "--write", "../x", "--", "python", "slow.py", "--", "python",
          "slow.py"], 2),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_line(programs: Path, words: list[str], code: int) -> None:
    write_plans(programs)
    result = harness(programs, "ab", *words)
    lines = [line for line in result.err.splitlines() if line.startswith("harness: ")]
    assert (result.code, len(lines)) == (code, 1), result.err
    assert "Traceback" not in result.err
