from __future__ import annotations

import doctest
import importlib
import math

import pytest

from harness.report.escape import command_name, markdown, one_line, tex
from harness.report.format import count, exact, finite, number, region, size
from harness.report.quantity import Quantity, quantity, show


@pytest.mark.parametrize("name", ["format", "escape", "verdicts"])
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(f"harness.report.{name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (9.996, "10.0"), (-0.5, "−0.500"), (1e-7, "1.00 × 10⁻⁷"), (4321.9, "4322")],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert number(value).replace("\u202f", " ") == text


def test_nothing_non_finite_is_a_number() -> None:
    for value in (math.nan, math.inf, "nan", None, True, [], "x"):
        assert finite(value) is None
    assert size(None) == count(math.nan) == "not recorded"


@pytest.mark.parametrize(
    ("low", "bound", "text"),
    [(1.4996, 1.5, "1.4996"), (1.5004, 1.5, "1.5004"), (1.5, 1.5, "1.50"), (1.44, 1.5, "1.44")],
)
def test_rounding_never_moves_a_limit_across_its_region(
    low: float, bound: float, text: str
) -> None:
    shown = show(Quantity(1.7, low, 1.9), "ratio", (bound, None))
    assert shown.interval.startswith(f"[{text},")


def test_a_share_below_one_is_never_printed_as_all() -> None:
    assert show(quantity({"k": 9999, "n": 10000}), "share").estimate == "99.99\u202f%"
    assert show(quantity({"k": 5, "n": 5}), "share").estimate == "100\u202f%"


def test_region_prints_frozen_bounds_exactly() -> None:
    assert exact(0.1 + 0.2) == "0.3"
    assert region(0.999, None, "share") == "≥ 99.9\u202f%"
    assert region(None, -0.02, "share_difference", is_open=True) == "< −2\u202fpp"
    assert region(0.97, 1.03, "ratio") == "0.97 to 1.03×"


def test_missing_says_why() -> None:
    assert show(Quantity(recorded=False)).line == "not recorded"
    assert show(quantity({"reason": "no blocks"})).line == "not estimable: no blocks"
    assert show(quantity(math.nan)).line == "not estimable"
    assert show(Quantity(2.0, 1.0, None)).line == "2.00 [1.00, unbounded]"


def test_escaping() -> None:
    assert tex("100% of $a_b$ \\x{}") == (r"100\% of \$a\_\allowbreak{}b\$ \textbackslash{}x\{\}")
    assert markdown("a|b\n<script>") == r"a\|b &lt;script&gt;"
    assert one_line("\x1b[31mred\u202e") == " [31mred "
    assert command_name("p", "P10", "low").isalpha()
