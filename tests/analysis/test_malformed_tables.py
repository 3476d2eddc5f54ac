"""Five thousand random malformed tables: each a clear error or a documented result, no traceback.

A table has a cluster column and three value columns; any of them may be ragged, empty, masked,
huge, of mixed kinds, or quite normal. Every public entry point sees a share of the tables.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from harness import analysis as st

TABLES = 5_000
PER_TABLE = 6
KEY = bytes(range(16))

SCALARS: list[Any] = [
    None, math.nan, math.inf, -math.inf, "", "x", "1", b"1", True, 0, 1, -1, 2, 3, 0.5, -0.5, 1e308,
    -1e308, 5e-324, 1e-300, 10**20, 10**400, 2**63, 1j, [], [1], {}, object(), Decimal("0.3"),
    Decimal("NaN"), Fraction(1, 3), datetime.date(2026, 1, 1), np.float64(0.25), np.int8(3), "0.95",
    np.datetime64("2026-01-01"), np.nan, (1, 2), 0.95, 20, 7, 1000,
]  # fmt: skip
NUMBERS: list[Any] = [0, 1, 2, 3, 0.0, 0.1, 0.5, 1.5, -2, 1e-300, 1e139, -1e139, 7, 100, 2**53, 1]


def column(random: Random, rows: int) -> Any:
    """A column that is normal half of the time."""
    kind = random.randrange(14)
    if kind < 3:
        return [random.choice((0, 1)) for _ in range(rows)]
    if kind < 6:
        return [random.uniform(0.1, 9) for _ in range(rows)]
    if kind == 6:
        return [random.choice(NUMBERS) for _ in range(rows)]
    if kind == 7:
        return [random.choice(SCALARS) for _ in range(rows)]
    if kind == 8:
        return [random.choice((0.0, 3.0))] * rows
    if kind == 9:
        return np.zeros((rows, random.randrange(3)))
    if kind == 10:
        return [random.random() for _ in range(random.randrange(rows + 3))]
    if kind == 11:
        return np.ma.masked_array(np.ones(rows), mask=[random.random() < 0.2 for _ in range(rows)])
    if kind == 12:
        return random.choice(SCALARS)
    values = [random.uniform(0.1, 9) for _ in range(rows)]
    if rows:
        values[random.randrange(rows)] = random.choice(SCALARS)
    return values


def labels(random: Random, rows: int) -> Any:
    kind = random.randrange(9)
    groups = random.choice((1, 2, 3, 5, 8, 30))
    if kind < 3:
        return [f"task {random.randrange(groups)}" for _ in range(rows)]
    if kind < 5:
        return [random.randrange(groups) for _ in range(rows)]
    if kind == 5:
        return np.arange(rows)
    if kind == 6:
        return [random.choice(SCALARS) for _ in range(rows)]
    if kind == 7:
        return random.choice(SCALARS)
    names: list[Any] = [f"task {random.randrange(groups)}" for _ in range(rows)]
    if rows:
        names[random.randrange(rows)] = random.choice(SCALARS)
    return names


@dataclasses.dataclass
class Table:
    cluster: Any
    a: Any
    b: Any
    c: Any
    scalars: list[Any]


def table(seed: int) -> Table:
    random = Random(seed)
    rows = random.choice((0, 1, 2, 3, 6, 12, 25, 60))
    columns = [column(random, rows) for _ in range(3)]
    return Table(labels(random, rows), *columns, [random.choice(SCALARS) for _ in range(4)])


def stacked(*columns: Any) -> Any:
    try:
        return np.stack([np.asarray(one) for one in columns], axis=1)
    except (ValueError, TypeError, np.exceptions.AxisError):
        return columns


def size(values: Any) -> int:
    return len(values) if isinstance(values, list) else 12


def alternating(values: Any, first: Any, second: Any) -> list[Any]:
    return [second if row % 2 else first for row in range(size(values))]


def positions(cluster: Any) -> list[int]:
    """0, 1, … within each cluster, where the labels allow it."""
    if not isinstance(cluster, list):
        return [0, 1, 2]
    seen: list[str] = []
    places = []
    for label in map(repr, cluster):
        places.append(seen.count(label))
        seen.append(label)
    return places


ENTRIES: dict[str, Callable[[Table], Any]] = {
    "mean_diff": lambda t: st.mean_diff(t.cluster, t.a, t.b, weights="cluster"),
    "mean_diff_rows": lambda t: st.mean_diff(t.cluster, t.a, t.b, weights="row"),
    "mean_diff_level": lambda t: st.mean_diff(
        t.cluster, t.a, t.b, weights="row", confidence=t.scalars[0]
    ),
    "log_ratio": lambda t: st.log_ratio(t.cluster, t.a, t.b),
    "ratio_of_sums": lambda t: st.ratio_of_sums(t.cluster, t.a, t.b),
    "accuracy_diff": lambda t: st.accuracy_diff(t.cluster, t.a, t.b),
    "cluster_sums": lambda t: st.cluster_sums(t.cluster, t.a),
    "cr2": lambda t: st.cr2_interval(t.a, t.b),
    "cr2_log": lambda t: st.cr2_interval(t.a, t.b, log=True, side="lower"),
    "cr2_test": lambda t: st.cr2_test(t.a, t.b, null=t.scalars[0]),
    "cluster_se": lambda t: st.cluster_se(t.a, t.b, kind="CR3"),
    "percentile": lambda t: st.percentile_bootstrap(t.a, t.b, key=KEY, resamples=299),
    "studentised": lambda t: st.studentised_bootstrap(t.a, t.b, key=KEY, resamples=299, log=True),
    "studentised_raw": lambda t: st.studentised_bootstrap(t.a, t.b, key=KEY, resamples=299),
    "enumerated": lambda t: st.enumerated_bootstrap(t.a, t.b, method="studentised"),
    "enumerated_percentile": lambda t: st.enumerated_bootstrap(t.a, t.b),
    "enumerated_error": lambda t: st.enumerated_error(t.a, t.b),
    "undefined_share": lambda t: st.undefined_share(t.b),
    "bca": lambda t: st.bca_enumerated(t.a, t.b),
    "tango_effective": lambda t: st.tango_effective(t.a, t.b, t.c),
    "tango_test": lambda t: st.tango_test(*t.scalars[:3], null=t.scalars[3]),
    "crossed": lambda t: st.crossed_mean(t.cluster, t.cluster, t.a),
    "crossed_rows": lambda t: st.crossed_mean(t.cluster, alternating(t.a, 1, 2), t.a),
    "beside": lambda t: st.beside(t.a, t.b, 5, key=KEY, confidence=t.scalars[0]),
    "mean_diffs": lambda t: st.percentile_bootstraps(
        stacked(t.a, t.b), t.c, key=KEY, resamples=299
    ),
    "wilson_level": lambda t: st.wilson_interval(3, 9, t.scalars[0]),
    "cr2_level": lambda t: st.cr2_interval([1, 2, 4], [1, 1, 1], confidence=t.scalars[1]),
    "ranks": lambda t: st.percentile_ranks(99, t.scalars[0]),
    "tango": lambda t: st.tango_interval(*t.scalars[:3]),
    "wilson": lambda t: st.wilson_interval(*t.scalars[:2]),
    "newcombe": lambda t: st.newcombe_interval(*t.scalars),
    "bonett_price": lambda t: st.bonett_price_interval(*t.scalars[:3]),
    "mcnemar": lambda t: st.mcnemar(t.scalars[0], t.scalars[1], "midp"),
    "mcnemar_chi2": lambda t: st.mcnemar(t.scalars[0], t.scalars[1], "chi2-corrected"),
    "mcnemar_rows": lambda t: st.mcnemar_rows(t.cluster, t.a, t.b),
    "eliasziw": lambda t: st.clustered_mcnemar(t.a, t.b, t.c, t.a, "eliasziw-donner"),
    "yang": lambda t: st.clustered_mcnemar(t.a, t.b, t.c, t.a, "yang"),
    "durkalski": lambda t: st.clustered_mcnemar(t.a, t.b, t.c, t.a, "durkalski"),
    "evalue": lambda t: st.sign_evalue(*t.scalars[:2]),
    "sign_flip": lambda t: st.sign_flip(t.a),
    "sign_flip_key": lambda t: st.sign_flip(t.a, key=KEY, resamples=299),
    "max_t": lambda t: st.max_t(stacked(t.a, t.b), key=KEY, resamples=299),
    "max_t_intervals": lambda t: st.max_t_intervals(
        stacked(t.a, t.c), stacked(t.b, t.b), key=KEY, resamples=299
    ),
    "holm": lambda t: st.holm(t.a),
    "bh": lambda t: st.benjamini_hochberg(t.b),
    "fixed_sequence": lambda t: st.fixed_sequence(t.cluster),
    "equivalence": lambda t: st.equivalence(t.a, t.b, st.equivalence_region(0.1)),
    "equivalence_region": lambda t: st.equivalence_region(t.scalars[0]),
    "region": lambda t: st.Region(t.scalars[0], t.scalars[1]),
    "tail_share": lambda t: st.tail_share(t.cluster, t.a),
    "tail_ratio": lambda t: st.tail_ratio(t.cluster, t.a, t.b),
    "over_threshold": lambda t: st.over_threshold(t.a, t.scalars[0]),
    "quantile": lambda t: st.quantile(t.a, t.scalars[0]),
    "weighted_quantile": lambda t: st.weighted_quantile(t.a, t.b, "0.5"),
    "quantile_ratio": lambda t: st.quantile_ratio(
        t.cluster, t.a, t.b, "0.5", key=KEY, resamples=299
    ),
    "quantile_diff": lambda t: st.quantile_diff(
        t.cluster, t.a, t.b, t.scalars[0], key=KEY, resamples=299
    ),
    "order": lambda t: st.order_diagnostics(t.cluster, t.a, t.b, t.c),
    "order_arms": lambda t: st.order_diagnostics(t.cluster, positions(t.cluster), t.b, t.a),
    "order_values": lambda t: st.order_diagnostics(
        t.cluster, positions(t.cluster), alternating(t.a, 0, 1), t.a
    ),
    "arm_and_drift": lambda t: st.arm_and_drift(t.a, t.b),
    "noise_floor": lambda t: st.noise_floor(t.a, t.b, t.c, t.a),
    "agreement": lambda t: st.agreement(t.a, t.b, t.c),
    "repeat_noise": lambda t: st.repeat_noise(t.a, t.b),
    "brier": lambda t: st.brier(t.a, t.cluster),
    "brier_words": lambda t: st.brier(t.a, ["held"] * 12),
    "pair_rows": lambda t: st.pair_rows(t.cluster, alternating(t.a, "A", "B"), t.a, t.b),
    "pair_rows_fine": lambda t: st.pair_rows(
        np.arange(len(alternating(t.a, 0, 1))) // 2, alternating(t.a, "A", "B"), t.a
    ),
    "missing_bounds": lambda t: st.missing_bounds(
        st.pair_rows(["x"] * len(alternating(t.a, 0, 1)), alternating(t.a, "A", "A"), t.a, t.b)
    ),
    "pair_rows_arm": lambda t: st.pair_rows(t.cluster, t.b, t.a),
    "model_check": lambda t: st.model_check(
        [st.Condition("one", t.a, 1.0, 0.01, 2.0), st.Condition("two", t.b, *t.scalars[:3])],
        tolerance=0.03,
        naive="linear",
        fitted_on="elsewhere",
    ),
    "mcnemar_power": lambda t: st.mcnemar_power(30, t.scalars[0], t.scalars[1]),
    "mean_power": lambda t: st.mean_power(20, t.scalars[0], t.scalars[1]),
    "detectable_effect": lambda t: st.detectable_effect(20, t.scalars[0]),
    "design_effect": lambda t: st.design_effect(t.a, t.scalars[0]),
    "sample_size": lambda t: st.non_inferiority_sample_size(*t.scalars[:2]),
    "questions": lambda t: st.question_sample_size(*t.scalars[:2]),
    "order_bias": lambda t: st.order_bias([(0, 1, 1, 0)], t.a),
    "bootstrap_counts": lambda t: st.bootstrap_counts(KEY, t.scalars[0], 10),
    "resampled_sums": lambda t: st.resampled_sums(KEY, stacked(t.a, t.b), 10),
}

WORDS = {"held", "failed", "inconclusive", "void"}


def assert_no_nan(value: Any, path: str) -> None:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert_no_nan(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple | list):
        for index, one in enumerate(value):
            assert_no_nan(one, f"{path}[{index}]")
    elif isinstance(value, np.ndarray):
        assert not np.isnan(value.astype(float)).any(), path
    elif isinstance(value, float):
        assert not math.isnan(value), path


def decided(result: Any) -> None:
    """Whatever came out can be turned into a verdict of one of the four words."""
    for region in (st.Region(1.02, None), st.Region(-0.01, 0.01, False, False)):
        for rule in ("ci", "point"):
            verdict = st.decide(result, region, rule)
            assert verdict.word in WORDS
            assert (verdict.word == "void") == bool(verdict.reasons)
            assert "nan" not in verdict.sentence.lower()


@pytest.mark.parametrize("chunk", range(5))
def test_malformed_tables(chunk: int) -> None:
    share = TABLES // 5
    names = sorted(ENTRIES)
    for seed in range(chunk * share, (chunk + 1) * share):
        bad = table(seed)
        for name in Random(-1 - seed).sample(names, PER_TABLE):
            try:
                result = ENTRIES[name](bad)
            except st.AnalysisError as error:
                assert str(error) and "\n" not in str(error), (seed, name)
                continue
            except Exception as error:  # noqa: BLE001 - any other kind is the defect sought
                pytest.fail(f"seed {seed}, {name}: {type(error).__name__}: {error}")
            assert_no_nan(result, f"seed {seed}, {name}")
            inner = getattr(result, "interval", result)
            if isinstance(result, st.Estimate | st.Interval | st.NotEstimable):
                decided(result)
            elif isinstance(inner, st.Interval):
                decided(inner)
