"""Random malformed tables: each ends in one clear line, or in a documented result without NaN."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.measure.table import evaluate_table, notes_of
from harness.measure.table_plan import TablePlan, table_plan
from harness.measure.table_source import MemoryTable, Source, open_table
from harness.report.tables import verdict_text
from harness.store.canonical import canonical
from harness.store.errors import UsageError
from tests.measure.test_table import prediction

Table = dict[str, list[Any]]
JUNK: list[Any] = [
    None, math.nan, math.inf, -math.inf, "", " ", "x", "nan", "inf", "1e999", "0x10", "١", "−3",
    -1.0, 0.0, 0, 1e308, 5e-324, 1e-310, 2**53 + 1, 2**63, 10**30, True, b"\xff", [], {}, [1],
    "naïve", "日本", "e\u0301", "\x00", "a,b", 'q"q', "1;2", "two\nlines", "-0", "1_000", 1e140,
    1e141,
]  # fmt: skip
IDS: list[Any] = [
    None, "", "  ", "日本", "é", "e\u0301", "item 0", "\u202e", "a\x1fb", 7, -1, 1.5, math.nan,
]  # fmt: skip
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("mean_diff", "seconds", {}),
    ("mean_diff", "correct", {}),
    ("log_ratio", "seconds", {}),
    ("ratio_of_sums", "seconds", {}),
    ("agreement", "correct", {}),
    ("agreement", "seconds", {}),
    ("rate", "correct", {"per": "seconds"}),
    ("quantile_ratio", "seconds", {"p": "0.5"}),
    ("quantile_diff", "seconds", {"p": "0.95"}),
    ("tail_share", "seconds", {"threshold": 1.0}),
    ("tail_ratio", "seconds", {"threshold": 1.0}),
]


def fresh(random: Random) -> Table:
    items = random.choice((0, 1, 2, 3, 6, 12, 40))
    table: Table = {name: [] for name in ("item", "arm", "batch", "kind", "seconds", "correct")}
    batches = random.choice((1, 2, 3, 10, 60))
    for item in range(items):
        for arm in "AB":
            row = (f"item {item}", arm, f"b{item % batches}", f"k{item % batches % 2}")
            numbers = (random.uniform(0.1, 3), random.choice((0, 1)))
            for name, value in zip(table, (*row, *numbers), strict=True):
                table[name].append(value)
    return table


def _place(random: Random, table: Table, name: str, values: list[Any]) -> None:
    if table.get(name):
        table[name][random.randrange(len(table[name]))] = random.choice(values)


def _drop_rows(random: Random, table: Table) -> None:
    kept = [random.random() < 0.7 for _ in table["item"]]
    for name, column in table.items():
        table[name] = [one for one, keep in zip(column, kept, strict=False) if keep]


def _twice(random: Random, table: Table) -> None:
    if table["item"]:
        row = random.randrange(len(table["item"]))
        for column in table.values():
            column.append(column[min(row, len(column) - 1)] if column else None)


def _one_arm(_: Random, table: Table) -> None:
    table["arm"] = ["A"] * len(table["arm"])


def _same(random: Random, table: Table) -> None:
    name = random.choice(("seconds", "correct", "batch", "item", "kind"))
    table[name] = [random.choice((0, 1, 2.5, "b", None))] * len(table[name])


def _shorter(random: Random, table: Table) -> None:
    name = random.choice(list(table))
    table[name] = table[name][:-1]


def _gone(random: Random, table: Table) -> None:
    table.pop(random.choice(list(table)))


def _text(random: Random, table: Table) -> None:
    name = random.choice(("seconds", "correct"))
    table[name] = [str(one) for one in table.get(name, [])]


def _whole(random: Random, table: Table) -> None:
    table["seconds"] = [random.randrange(-1, 4) for _ in table.get("seconds", [])]


def _gaps(random: Random, table: Table) -> None:
    column = table.get("seconds", [])
    table["seconds"] = [None if random.random() < 0.3 else one for one in column]


CHANGES: list[Callable[[Random, Table], None]] = [
    lambda r, t: _place(r, t, "seconds", JUNK),
    lambda r, t: _place(r, t, "correct", JUNK),
    lambda r, t: _place(r, t, "item", IDS),
    lambda r, t: _place(r, t, "batch", IDS),
    lambda r, t: _place(r, t, "kind", IDS),
    lambda r, t: _place(r, t, "arm", [None, "C", "a", "", "A", "B", 1]),
    _drop_rows, _twice, _one_arm, _same, _shorter, _gone, _text, _whole, _gaps,
]  # fmt: skip


def malformed(random: Random) -> Table:
    table = fresh(random)
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        if set(table) >= {"item", "arm", "batch", "kind", "seconds", "correct"}:
            random.choice(CHANGES)(random, table)
    return table


def plan_of(random: Random) -> TablePlan:
    chosen = random.sample(KINDS, 3)
    cluster = random.choice(("item", "block"))
    predictions = [
        prediction(f"P{place}", kind, of, estimand={"cluster": cluster, **more})
        for place, (kind, of, more) in enumerate(chosen)
    ]
    columns: dict[str, Any] = {"block": "batch"}
    if random.random() < 0.3:
        columns["stratum"] = "kind"
    return table_plan(
        {
            "arms": {"pristine": "A", "patched": "B"},
            "columns": columns,
            "max_missing_share": random.choice((0.0, 1.0)),
            "ranges": {"seconds": [0, 10]},
            "predictions": predictions,
        }
    )


def judged(source: Source, plan: TablePlan) -> str:
    """Return what came out: a refusal in one line, or words that hold no NaN."""
    found = evaluate_table(source, plan)
    canonical(found)  # refuses NaN and infinities
    for verdict in found["verdicts"]:
        assert verdict["word"] in ("held", "failed", "inconclusive", "void")
        assert (verdict["word"] == "void") == bool(verdict["reasons"])
        assert verdict["p"] is None or 0 < verdict["p"]["value"] <= 1
        assert "nan" not in " ".join(notes_of(verdict)).lower()
    assert " nan" not in verdict_text(found).lower()
    return "judged"


def fuzz(seeds: range, tmp_path: Path) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        table, plan = malformed(random), plan_of(random)
        try:
            if seed % 10 == 0:
                path = tmp_path / "t.csv"
                path.write_bytes(csv(table, random))
                outcomes[judged(open_table(path), plan)] += 1
            else:
                outcomes[judged(MemoryTable(table), plan)] += 1
        except UsageError as error:
            assert str(error).strip() and "\n" not in str(error), seed
            outcomes["refused"] += 1
        except Exception as error:  # noqa: BLE001 - any other kind is the defect sought
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
    return outcomes


def csv(table: Table, random: Random) -> bytes:
    """A careless CSV: no quotes, so that a comma or a line end in a cell breaks its row."""
    lines = [",".join(table)]
    depth = max((len(column) for column in table.values()), default=0)
    for row in range(depth):
        cells = ["" if row >= len(c) or c[row] is None else str(c[row]) for c in table.values()]
        lines.append(",".join(cells))
    data = random.choice(("\n", "\r\n")).join(lines).encode("utf-8", "surrogatepass")
    return data[: random.randrange(len(data) + 1)] if random.random() < 0.1 else data


def test_five_hundred_malformed_tables(tmp_path: Path) -> None:
    outcomes = fuzz(range(500), tmp_path)
    assert min(outcomes["judged"], outcomes["refused"]) > 100


@pytest.mark.slow
def test_five_thousand_malformed_tables(tmp_path: Path) -> None:
    outcomes = fuzz(range(5_000), tmp_path)
    assert sum(outcomes.values()) == 5_000
