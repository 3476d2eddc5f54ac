"""Verdicts on a table: the API's numbers, the same bits in any cut, and no silent loss."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from harness import analysis as st
from harness.measure.table import evaluate_table
from harness.measure.table_plan import TablePlan, table_plan
from harness.measure.table_source import MemoryTable, Piece, open_table
from harness.store.canonical import canonical
from harness.store.errors import UsageError


def prediction(name: str, kind: str, of: str, **more: Any) -> dict[str, Any]:
    estimand = {"kind": kind, "of": of, "cluster": "block", **more.pop("estimand", {})}
    given = {"id": name, "claim": f"{kind} of {of}", "estimand": estimand, "region": [0.5, None]}
    return {**given, "family": "secondary", "confidence": 0.5, "min_clusters": 2, **more}


INTEGERS = [
    prediction("D", "mean_diff", "tokens"),
    prediction("R", "ratio_of_sums", "ns"),
    prediction("A", "mean_diff", "correct", estimand={"cluster": "item"}),
    prediction("G", "agreement", "text", estimand={"cluster": "item"}),
    prediction("T", "rate", "tokens", estimand={"per": "ns"}),
    prediction("S", "tail_share", "tokens", estimand={"threshold": 60.0}),
    prediction("X", "tail_ratio", "tokens", estimand={"threshold": 60.0}),
    prediction("Q", "quantile_ratio", "ns", estimand={"p": "0.5"}),
    prediction("B", "quantile_diff", "tokens", estimand={"p": "0.9"}),
]
FLOATS = [
    prediction("L", "log_ratio", "seconds"),
    prediction("M", "mean_diff", "seconds"),
    prediction("N", "ratio_of_sums", "seconds"),
]
COLUMNS = {"block": "batch"}


def plan(predictions: Sequence[dict[str, Any]], **more: Any) -> TablePlan:
    return table_plan(
        {
            "arms": {"pristine": "A", "patched": "B"},
            "columns": COLUMNS,
            "max_missing_share": 0.5,
            "predictions": list(predictions),
            **more,
        }
    )


def columns(items: int = 240, seed: int = 3) -> dict[str, list[Any]]:
    """Long rows in a random order, one missing pair in forty."""
    draw = np.random.Generator(np.random.Philox(seed))
    rows = []
    for item in range(items):
        for arm, pace in (("A", 1.0), ("B", 0.7)):
            if item % 40 == 7 and arm == "B":
                continue
            time = float(draw.lognormal(0, 0.5) * pace)
            tokens, right = int(draw.integers(1, 99)), int(draw.random() < 0.7)
            batch = f"β{item // 12}"
            text = f"answer {item if item % 3 else arm}"
            rows.append((f"item {item} ✓", arm, batch, time, int(time * 1e9), tokens, right, text))
    order = draw.permutation(len(rows))
    names = ("item", "arm", "batch", "seconds", "ns", "tokens", "correct", "text")
    return {name: [rows[row][place] for row in order] for place, name in enumerate(names)}


class Pieces:
    """A table cut into given pieces."""

    def __init__(self, table: dict[str, list[Any]], cuts: Sequence[int]) -> None:
        self.name, self.headers = "table", tuple(table)
        self._table = pa.table(table)
        self._cuts = [0, *cuts, len(self._table)]

    def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
        for start, stop in zip(self._cuts, self._cuts[1:], strict=False):
            part = self._table.slice(start, stop - start)
            yield {name: part.column(name) for name in headers}


def verdicts(found: dict[str, Any]) -> dict[str, Any]:
    return {one["id"]: one for one in found["verdicts"]}


def paired(of: str, table: dict[str, list[Any]]) -> tuple[list[str], list[Any], list[Any]]:
    value: dict[tuple[str, str], tuple[str, Any]] = {}
    for item, arm, batch, one in zip(
        table["item"], table["arm"], table["batch"], table[of], strict=True
    ):
        value[item, arm] = (batch, one)
    whole = [item for item, arm in value if arm == "A" and (item, "B") in value]
    return (
        [value[item, "A"][0] for item in whole],
        [value[item, "A"][1] for item in whole],
        [value[item, "B"][1] for item in whole],
    )


def ends(estimate: Any) -> tuple[float, float, float]:
    return estimate.estimate, estimate.interval.low, estimate.interval.high


def test_the_numbers_are_those_of_the_package_to_the_bit() -> None:
    table = columns()
    found = verdicts(evaluate_table(MemoryTable(table), plan([*INTEGERS, *FLOATS])))
    expected = {
        "D": st.mean_diff(*paired("tokens", table), weights="row", confidence="0.9"),
        "R": st.ratio_of_sums(*paired("ns", table), confidence="0.9"),
        "X": st.tail_ratio(
            paired("tokens", table)[0],
            *(np.array(x) > 60 for x in paired("tokens", table)[1:]),
            confidence="0.9",
        ),
    }
    for name, estimate in expected.items():
        one = found[name]
        if isinstance(getattr(estimate, "interval", None), st.Interval):
            assert (one["estimate"], one["low"], one["high"]) == ends(estimate)
    labels, a, b = paired("seconds", table)
    for name, estimate in (
        ("L", st.log_ratio(labels, a, b, confidence="0.9")),
        ("M", st.mean_diff(labels, a, b, weights="row", confidence="0.9")),
        ("N", st.ratio_of_sums(labels, a, b, confidence="0.9")),
    ):
        one = found[name]
        assert (one["estimate"], one["low"], one["high"]) == pytest.approx(
            ends(estimate), rel=1e-12
        )
    items = [f"i{row}" for row in range(len(a))]
    accuracy = st.accuracy_diff(items, *paired("correct", table)[1:], confidence="0.9")
    assert found["A"]["estimate"] == pytest.approx(accuracy.estimate, rel=1e-15)
    assert found["A"]["p"]["test"] == "midp"
    same = [x == y for x, y in zip(*paired("text", table)[1:], strict=True)]
    assert found["G"]["estimate"] == sum(same) / len(same)


@pytest.mark.parametrize("cuts", [(), (1,), (5, 6, 7, 200), tuple(range(0, 470, 3))])
def test_any_cut_into_row_groups_gives_the_same_bits(cuts: tuple[int, ...]) -> None:
    table, wanted = columns(), plan([*INTEGERS, *FLOATS])
    whole = evaluate_table(MemoryTable(table), wanted)
    assert canonical(evaluate_table(Pieces(table, cuts), wanted)) == canonical(whole)


def test_rows_in_another_order_give_the_same_bits() -> None:
    table, wanted = columns(), plan([*INTEGERS, *FLOATS])
    order = Random(5).sample(range(len(table["item"])), len(table["item"]))
    shuffled = {name: [values[row] for row in order] for name, values in table.items()}
    assert canonical(evaluate_table(MemoryTable(shuffled), wanted)) == canonical(
        evaluate_table(MemoryTable(table), wanted)
    )


def test_csv_and_parquet_in_small_row_groups_agree_to_the_bit(tmp_path: Path) -> None:
    table, wanted = columns(), plan([*INTEGERS, *FLOATS])
    arrow = pa.table(table)
    parquet.write_table(arrow, tmp_path / "t.parquet", row_group_size=7)
    assert parquet.ParquetFile(tmp_path / "t.parquet").num_row_groups > 60
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    answers = [
        evaluate_table(source, wanted)["verdicts"]
        for source in (
            open_table(tmp_path / "t.parquet"),
            open_table(tmp_path / "t.csv"),
            MemoryTable(table),
        )
    ]
    assert canonical(answers[0]) == canonical(answers[1]) == canonical(answers[2])


def test_missing_pairs_are_counted_bounded_and_void_beyond_the_limit() -> None:
    table = columns()
    found = verdicts(evaluate_table(MemoryTable(table), plan(INTEGERS)))["A"]
    assert found["missing"]["pairs"] == 6
    worst, best = found["missing"]["bounds"]
    assert best - worst == pytest.approx(6 / 240)
    assert worst <= found["estimate"] * 234 / 240 + 6 / 240
    strict = plan(INTEGERS, max_missing_share=0.01)
    one = verdicts(evaluate_table(MemoryTable(table), strict))["A"]
    assert one["word"] == "void"
    assert one["reasons"] == ["2.5% missing, allows 1.0%"]


def test_a_missing_value_is_a_missing_pair_and_bounds_match_the_package() -> None:
    table = {
        "item": ["x", "x", "y", "y", "z", "z"],
        "arm": list("ABABAB"),
        "correct": [1, 1, 0, 1, 1, None],
    }
    wanted = plan(
        [prediction("A", "mean_diff", "correct", estimand={"cluster": "item"})], columns={}
    )
    one = verdicts(evaluate_table(MemoryTable(table), wanted))["A"]
    pairs = st.pair_rows(table["item"], table["arm"], table["correct"])
    bounds = st.missing_bounds(pairs)
    assert isinstance(bounds, st.MissingBounds)
    assert one["n"] == len(pairs.tasks) == 2
    assert one["missing"]["bounds"] == [bounds.worst, bounds.best]


def test_strata_narrow_the_interval_where_they_explain_the_spread() -> None:
    draw = np.random.Generator(np.random.Philox(8))
    rows = [(f"i{i}", arm, f"t{i % 4}") for i in range(80) for arm in "AB"]
    value = [(i % 4) * (arm == "B") + draw.normal(0, 0.1) for i in range(80) for arm in "AB"]
    table = dict(zip(("item", "arm", "template"), map(list, zip(*rows, strict=True)), strict=True))
    table["score"] = value
    claim = [prediction("D", "mean_diff", "score", estimand={"cluster": "item"})]
    plain = verdicts(evaluate_table(MemoryTable(table), plan(claim, columns={})))["D"]
    strata = plan(claim, columns={"stratum": "template"})
    inside = verdicts(evaluate_table(MemoryTable(table), strata))["D"]
    assert inside["method"] == "cr2-stratified"
    assert inside["high"] - inside["low"] < 0.2 * (plain["high"] - plain["low"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item": ["x", "x", "x", "y"]}, "rows 1 and 3 are the same record"),
        ({"arm": ["A", "B", "A", "C"]}, "row 4: 'C' is not an arm"),
        ({"arm": ["A", "A", "A", "A"], "item": list("wxyz")}, "arm 'B' has no rows"),
        ({"item": ["x", "x", None, "y"]}, "row 3 has no id"),
        ({"item": [1.0, 1.0, 2.0, 2.0]}, "ids are text or whole numbers"),
        ({"seconds": [1.0, float("inf"), 1.0, 2.0]}, "row 2: inf is infinite"),
        ({"seconds": ["1", "2", "fast", "2"]}, "row 3: 'fast' is not a number"),
        ({"seconds": [1.0, -2.0, 1.0, 2.0]}, "row 2: found -2, but log_ratio needs values above 0"),
        ({"seconds": [2**60, 1, 1, 1]}, "beyond ±2^53"),
        ({"seconds": [[1], [2], [1], [1]]}, "needs numbers"),
        ({"batch": ["p", "q", "p", "q"]}, "holds other items for one arm"),
        ({"seconds": [1.0, 2.0, 1.0]}, "columns differ in length"),
    ],
)
def test_a_malformed_table_ends_in_one_line(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "item": ["x", "x", "y", "y"],
        "arm": ["A", "B", "A", "B"],
        "batch": ["p", "p", "q", "q"],
        "seconds": [1.0, 2.0, 1.0, 2.0],
    }
    wanted = plan([prediction("L", "log_ratio", "seconds")])
    evaluate_table(MemoryTable(good), wanted)
    with pytest.raises(UsageError, match=message.replace("^", r"\^")) as caught:
        evaluate_table(MemoryTable({**good, **change}), wanted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.01}, "alpha: unknown key"),
        ({"predictions": []}, "predictions"),
        ({"arms": {"pristine": "A", "patched": "A"}}, "two different labels"),
        ({"predictions": [prediction("L", "log_ratio", "x")] * 2}, "L appears twice"),
        ({"predictions": [prediction("Q", "quantile_diff", "x")]}, "estimand.p"),
        ({"predictions": [prediction("L", "log_ratio", "x", region=[None, None])]}, "no end"),
        ({"columns": {}}, "block needs columns.block"),
        ({"columns": {"block": 3}}, "columns.block: found 3"),
    ],
)
def test_a_malformed_plan_ends_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**{"predictions": [prediction("L", "log_ratio", "x")], **change})


def test_a_value_outside_its_range_is_refused() -> None:
    table = {"item": list("xxyy"), "arm": list("ABAB"), "score": [1.0, 2.0, 3.0, 11.0]}
    claim = [prediction("D", "mean_diff", "score", estimand={"cluster": "item"})]
    wanted = plan(claim, columns={}, ranges={"score": [0, 10]})
    with pytest.raises(UsageError, match="row 4: found 11, but its range is 0 to 10"):
        evaluate_table(MemoryTable(table), wanted)


def test_a_table_that_changes_between_its_two_readings_is_refused() -> None:
    class Changing(Pieces):
        readings = 0

        def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
            self.readings += 1
            stop = len(self._table) - 2 * (self.readings > 1)
            yield {name: self._table.slice(0, stop).column(name) for name in headers}

    with pytest.raises(UsageError, match="changed while it was read"):
        evaluate_table(Changing(columns(), ()), plan(FLOATS))


def test_many_clusters_in_small_pieces_keep_their_bits() -> None:
    table = columns(2_000)
    wanted = plan([prediction("M", "mean_diff", "seconds", estimand={"cluster": "item"})])
    whole = evaluate_table(MemoryTable(table), wanted)
    cuts = tuple(range(50, 3_900, 50))
    assert canonical(evaluate_table(Pieces(table, cuts), wanted)) == canonical(whole)


def test_memory_does_not_grow_with_the_rows_of_a_parquet_file(tmp_path: Path) -> None:
    peaks = []
    wanted = plan([prediction("L", "log_ratio", "seconds"), prediction("R", "ratio_of_sums", "ns")])
    for rows in (1 << 15, 1 << 18):
        path = tmp_path / f"{rows}.parquet"
        _write(path, rows)
        tracemalloc.start()
        evaluate_table(open_table(path), wanted)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    grown = (peaks[1] - peaks[0]) / ((1 << 18) - (1 << 15))
    assert grown < 40, "bytes per row beside the 64-bit hashes"


def _write(path: Path, rows: int) -> None:
    draw = np.random.Generator(np.random.Philox(1))
    place = np.arange(rows)
    time = draw.lognormal(0, 1, rows)
    table = pa.table(
        {
            "item": place // 2,
            "arm": pa.array(np.where(place % 2, "B", "A")),
            "batch": place // 2 % 64,
            "seconds": time,
            "ns": (time * 1e9).astype(np.int64),
        }
    )
    parquet.write_table(table, path, row_group_size=4096)
