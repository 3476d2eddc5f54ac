"""Every published or doubly computed vector, to its stated tolerance.

Each family of statistics has one adapter from a vector to the public function it tests. A vector
without an adapter fails, so that none is forgotten.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import analysis as st
from harness.analysis.cr2 import fit
from harness.analysis.resampling import indices_of, raw_words

FILE = Path(__file__).parent / "stats_vectors.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["vectors"]
BY_NAME = {vector["name"]: vector for vector in VECTORS}

WRONG_ON_PURPOSE = {
    "missing_pair_unpaired_trap",
    "naive_index_asymmetry_B10000",
    "holm_void_dropped_R",
}


def _key(low: int, high: int) -> bytes:
    return (low | high << 64).to_bytes(16, "little")


KEY = _key(0xFEDCBA9876543210, 0x0123456789ABCDEF)


def _ends(result: Any) -> Any:
    if isinstance(result, st.NotEstimable):
        return None
    interval = getattr(result, "interval", result)
    return [interval.low, interval.high]


def _mcnemar(vector: dict[str, Any]) -> Any:
    given, options = vector["input"], vector["options"]
    statistic = vector["statistic"]
    if statistic == "mcnemar.min_discordant":
        return st.min_discordant(options["alpha"])
    if statistic == "mcnemar.power":
        return st.mcnemar_power(
            given["n"],
            given["p10"],
            given["p01"],
            alpha=options["alpha"],
            method=options["method"],
        )
    method = options["method"]
    if method == "any":
        found = {
            st.mcnemar(given["b"], given["c"], one).p
            for one in ("exact", "midp", "chi2", "chi2-corrected")
        }
        (only,) = found
        return only
    if method == "asymptotic":
        method = "chi2-corrected" if options.get("correction") else "chi2"
    tie = "fagerland" if "fagerland" in options.get("tie_rule", "") else "double"
    alternative = options.get("alternative", "two-sided")
    result = st.mcnemar(given["b"], given["c"], method, alternative, tie_rule=tie)
    if statistic == "mcnemar.p":
        return result.p
    return result.statistic if statistic == "mcnemar.stat" else [result.statistic, result.p]


def _clustered(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    result = st.clustered_mcnemar(
        given["ak"], given["bk"], given["ck"], given["dk"], vector["options"]["method"]
    )
    assert isinstance(result, st.TestResult)
    both = [result.statistic, result.p]
    return both if vector["statistic"].endswith("stat_p") else result.statistic


def _sign_flip(vector: dict[str, Any]) -> Any:
    if vector["statistic"].endswith("min_p"):
        return st.smallest_sign_flip_p(vector["input"]["G"])
    result = st.sign_flip(vector["input"]["d"], vector["options"]["alternative"])
    assert isinstance(result, st.TestResult)
    assert result.method == "sign-flip-exact"
    return result.p


def _paired_diff(vector: dict[str, Any]) -> Any:
    given, options = vector["input"], vector["options"]
    method, confidence = options["method"], options["level"]
    if method == "tango-eff":
        b, c = np.array(given["bk"]), np.array(given["ck"])
        pairs = b + c + np.array(given["ak"]) + np.array(given["dk"])
        return {
            "phi": st.paired_design_effect(b, c, pairs),
            "ci": _ends(st.tango_effective(b, c, pairs, confidence)),
        }
    if method == "newcombe-square-and-add":
        cells = [given[name] for name in "abcd"]
        return _ends(st.newcombe_interval(*cells, confidence=confidence))
    function = {
        "tango": st.tango_interval,
        "bonett-price": st.bonett_price_interval,
        "wald": st.wald_interval,
    }[method]
    return _ends(function(given["b"], given["c"], given["n"], confidence))


def _sums(vector: dict[str, Any]) -> tuple[list[float], list[float]]:
    given = vector["input"]
    if "clusters" in given:
        rows = given["clusters"].values()
        return [float(sum(one)) for one in rows], [float(len(one)) for one in rows]
    if "d" in given:
        return given["d"], [1.0] * len(given["d"])
    return given["num"], given["den"]


def _means(vector: dict[str, Any]) -> Any:
    top, bottom = np.array(_sums(vector)[0]), np.array(_sums(vector)[1])
    if vector["statistic"] == "ratio_of_sums":
        return _fit(vector).theta
    if vector["statistic"] == "point_estimates":
        return {"ratio_of_sums": _fit(vector).theta, "mean_of_ratios": float((top / bottom).mean())}
    rows = vector["input"]["clusters"]
    labels = [label for label, values in rows.items() for _ in values]
    values = np.array([value for one in rows.values() for value in one], dtype=float)
    zero = np.zeros(len(values))
    return st.mean_diff(labels, zero, values, weights="cluster").estimate


def _fit(vector: dict[str, Any]) -> Any:
    found = fit(*_sums(vector))
    assert not isinstance(found, st.NotEstimable)
    return found


def _cluster_errors(vector: dict[str, Any]) -> Any:
    if vector["statistic"] == "cluster_df":
        return _fit(vector).df
    if vector["statistic"] == "jackknife_se":
        return st.jackknife_error(*_sums(vector))
    return st.cluster_se(*_sums(vector), kind=vector["options"]["type"])


def _intervals(vector: dict[str, Any]) -> Any:
    options, sums = vector["options"], _sums(vector)
    method = options.get("method")
    if vector["statistic"] == "ratio_of_sums.boot_se":
        return st.enumerated_error(*sums)
    if method in ("percentile", "studentised"):
        return _ends(st.enumerated_bootstrap(*sums, confidence=options["level"], method=method))
    if method == "bca":
        return _ends(st.bca_enumerated(*sums, confidence=options["level"]))
    if str(options["level"]).endswith("lower"):
        return _ends(st.cr2_interval(*sums, confidence="0.975", side="lower"))
    return _ends(st.cr2_interval(*sums, confidence=options["level"]))


def _cluster_p(vector: dict[str, Any]) -> Any:
    result = st.cr2_test(*_sums(vector), alternative=vector["options"]["alternative"])
    assert isinstance(result, st.TestResult)
    return result.p


def _bca(vector: dict[str, Any]) -> Any:
    if vector["statistic"] == "bca.acceleration":
        centre = "estimate" if vector["options"].get("center") == "theta-hat" else "mean"
        return st.acceleration(*_sums(vector), centre=centre)
    found = st.bca_enumerated(*_sums(vector), ties=vector["options"]["ties"])
    assert isinstance(found, st.BcaInterval)
    return {
        "z0": found.bias,
        "a": found.acceleration,
        "p_lo": found.low_share,
        "p_hi": found.high_share,
        "lo": found.interval.low,
        "hi": found.interval.high,
    }


def _counting(vector: dict[str, Any]) -> Any:
    given, statistic = vector["input"], vector["statistic"]
    if statistic == "distinct_bootstrap_resamples":
        if given["G"] <= 8:
            assert len(st.all_resamples(given["G"]).ways) == vector["expected"]
        return st.distinct_resamples(given["G"])
    if statistic == "prob_all_same_cluster":
        every = st.all_resamples(given["G"])
        single = every.ways[every.counts.max(axis=1) == given["G"]].sum() / every.ways.sum()
        assert single == pytest.approx(vector["expected"], abs=1e-15)
        return st.single_cluster_probability(given["G"])
    if statistic == "undefined_resample_fraction":
        refused = st.enumerated_bootstrap(given["num"], given["den"])
        assert isinstance(refused, st.NotEstimable)
        return st.undefined_share(given["den"])
    if statistic == "percentile.ranks":
        return list(st.percentile_ranks(given["B"], str(1 - Fraction(given["alpha"]))) or ())
    return st.montecarlo_p(given["n_le"], given["n_ge"], given["B"])


def _percentile_ranks(vector: dict[str, Any]) -> Any:
    return list(st.percentile_ranks(vector["input"]["B"], "0.95") or ())


def _quantiles(vector: dict[str, Any]) -> Any:
    given, options = vector["input"], vector["options"]
    if "weights" in given:
        return st.weighted_quantile(given["values"], given["weights"], options["p"])
    values = given["values"]
    if isinstance(values, str):
        first, last = values.split("..")
        values = list(range(int(first), int(last) + 1))
    if "types" in options:
        return [st.quantile(values, options["p"], kind) for kind in options["types"]]
    shares = given.get("p", options.get("p", 0.5))
    if isinstance(shares, list):
        return [st.quantile(values, share, options["type"]) for share in shares]
    return st.quantile(values, shares, options["type"])


def _medians(vector: dict[str, Any]) -> Any:
    a, b = (np.array(vector["input"][arm]) for arm in "AB")
    gap = st.quantile_diff([0, 1, 2], a, b, "0.5", key=KEY)
    return {"diff_of_medians": gap.estimate, "median_of_diffs": st.quantile(b - a, "0.5")}


def _speed(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    if vector["statistic"] == "throughput":
        total = st.ratio_of_sums([0, 1], given["tokens"], given["seconds"])
        assert isinstance(total, st.Estimate)
        rates = np.array(given["tokens"]) / np.array(given["seconds"])
        return {"total": total.estimate, "mean_of_requests": float(rates.mean())}
    a, b = np.array(given["A"], dtype=float), np.array(given["B"], dtype=float)
    sums = st.ratio_of_sums([0, 1], a, b)
    assert isinstance(sums, st.Estimate)
    found = {
        "ratio_of_sums": sums.estimate,
        "mean_of_ratios": float((a / b).mean()),
        "geometric_mean": st.log_ratio([0, 1], a, b).estimate,
    }
    if "ratio_of_medians" in vector["expected"]:
        found["ratio_of_medians"] = float(np.median(a) / np.median(b))
    return found


def _missing(vector: dict[str, Any]) -> Any:
    rows = vector["input"]["rows"]
    pairs = st.pair_rows([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    if vector["options"]["missing"].startswith("worst"):
        bounds = st.missing_bounds(pairs)
        assert isinstance(bounds, st.MissingBounds)
        return [bounds.worst, bounds.best]
    estimate = st.mean_diff(pairs.tasks, pairs.a, pairs.b, weights="cluster")
    return {
        "estimate": estimate.estimate,
        "pairs": len(pairs.tasks),
        "dropped": [task for task, _ in pairs.dropped],
    }


def _validate(vector: dict[str, Any]) -> Any:
    rows = vector["input"]["rows"]
    if vector["statistic"] == "n_clusters":
        return len(st.clusters_of(st.cluster_key([r[0] for r in rows], [r[1] for r in rows])))
    repeats = [row[2] for row in rows] if len(rows[0]) > 3 else None
    with pytest.raises(st.AnalysisError) as caught:
        st.pair_rows([r[0] for r in rows], [r[1] for r in rows], [r[-1] for r in rows], repeats)
    words = str(caught.value)
    return f"error:{'duplicate-key' if 'duplicate key' in words else 'missing-cluster-id'}"


def _arms(letters: str) -> tuple[int, ...]:
    return tuple("AB".index(letter) for letter in letters)


def _order_bias(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    orders = [_arms(one) for one in given.get("sequences", [given.get("sequence")])]
    if "carry_A" in given:
        return st.carry_over_bias(orders, given["carry_A"], given["carry_B"])
    return st.order_bias(orders, given["position_effect"])


def _drift_scale(vector: dict[str, Any]) -> Any:
    times, arms = np.array(vector["input"]["times"]), np.array(_arms(vector["input"]["sequence"]))
    a, b = times[arms == 0], times[arms == 1]
    if vector["statistic"].startswith("ratio_of_sums"):
        found = st.ratio_of_sums([0, 0], a, b)
        assert isinstance(found, st.Estimate)
        return found.estimate
    return math.log(st.log_ratio([0, 0], a, b).estimate)


def _ols(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    found = st.arm_and_drift(_arms(given["sequence"]), given["y"])
    assert isinstance(found, st.Regression)
    return {
        "intercept": found.intercept,
        "arm": found.arm,
        "drift": found.drift,
        "se_arm": found.arm_error,
    }


def _crossover(vector: dict[str, Any]) -> Any:
    given = {name: np.array(values) for name, values in vector["input"].items()}
    first, second = given["arm"] == 0, given["arm"] == 1
    tasks = given["task"][first]
    assert (tasks == given["task"][second]).all()
    found = st.mean_diff(tasks, given["y"][first], given["y"][second], weights="cluster")
    return [found.estimate, *_ends(found.interval)]


def _noise(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    found = st.noise_floor(given["A1"], given["A2"], given["B1"], given["B2"])
    return {
        "AA": found.within_a,
        "BB": found.within_b,
        "AB": found.between,
        "excess": found.excess,
    }


def _adjust(vector: dict[str, Any]) -> Any:
    function = {"holm": st.holm, "bh": st.benjamini_hochberg}[vector["options"]["method"]]
    return list(function(vector["input"]["p"]))


def _max_t(vector: dict[str, Any]) -> Any:
    found = st.max_t(vector["input"]["d"])
    assert isinstance(found, st.MaxT)
    assert found.p == (2 / 64, 12 / 64)
    return list(found.adjusted)


def _tost(vector: dict[str, Any]) -> Any:
    difference = np.array(vector["input"]["B"]) - np.array(vector["input"]["A"])
    region = st.equivalence_region(vector["options"]["bound"])
    found = st.equivalence(difference, np.ones(len(difference)), region)
    assert isinstance(found, st.Equivalence)
    assert found.verdict.word == "held"
    return {
        "p_lower": found.p_lower,
        "p_upper": found.p_upper,
        "p": found.p,
        "ci90": _ends(found.interval),
    }


def _planning(vector: dict[str, Any]) -> Any:
    given, statistic = vector["input"], vector["statistic"]
    if statistic == "design_effect":
        sizes = given.get("sizes") or [given["m"]] * 3
        return st.design_effect(sizes, given["icc"])
    if "omega2" in given:
        variance = float(Fraction(given["omega2"]))
        return st.question_sample_size(
            variance, given["delta"], alpha=given["alpha"], power=given["power"]
        )
    rest = {"alpha": given["alpha_one_sided"], "power": given["power"]}
    if statistic == "detectable_margin":
        return st.detectable_margin(given["discordance"], given["n"], **rest)
    return st.non_inferiority_sample_size(given["discordance"], given["margin"], **rest)


def _philox(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    if vector["statistic"].startswith("philox4x64"):
        return [hex(word) for word in st.philox_block(tuple(given["counter"]), tuple(given["key"]))]
    key = int(given["key_hi"], 16) << 64 | int(given["key_lo"], 16)
    assert st.philox_words(key, 0, 4) == [int(word) for word in raw_words(KEY, 0, 4)]
    return [hex(word) for word in st.philox_words(key, 0, 4)]


def _plan(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    if vector["statistic"] == "resample_plan.indices":
        return next(indices_of(KEY, given["block"], given["G"]))[1].ravel()[:10].tolist()
    table = np.stack([given["num"], given["den"]], axis=1)
    sums = st.resampled_sums(KEY, table, given["B"])
    draws = sums[:, 0] / sums[:, 1]
    found = st.percentile_bootstrap(given["num"], given["den"], key=KEY, resamples=given["B"])
    assert isinstance(found, st.Bootstrap)
    return {
        "first5": draws[:5].tolist(),
        "lower": found.interval.low,
        "upper": found.interval.high,
        "n_le_1": int((draws <= 1).sum()),
        "n_ge_1": int((draws >= 1).sum()),
    }


def _ledger(vector: dict[str, Any]) -> Any:
    given = vector["input"]
    ends = given["region"]
    high = None if ends["high"] == "inf" else ends["high"]
    region = st.Region(ends["low"], high, ends["low_closed"], ends["high_closed"])
    interval = st.Interval(given["estimate"], *given["ci"], 0.95, "cr2", 19.0, 20)
    return st.decide(interval, region, vector["options"]["rule"]).word


def _evalue(vector: dict[str, Any]) -> Any:
    return st.sign_evalue(vector["input"]["b"], vector["input"]["c"])


ADAPTERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "mcnemar.p": _mcnemar,
    "mcnemar.stat": _mcnemar,
    "mcnemar.stat_p": _mcnemar,
    "mcnemar.min_discordant": _mcnemar,
    "mcnemar.power": _mcnemar,
    "clustered_mcnemar.stat_p": _clustered,
    "clustered_mcnemar.stat": _clustered,
    "cluster_signflip.p": _sign_flip,
    "cluster_signflip.min_p": _sign_flip,
    "paired_diff.ci": _paired_diff,
    "ratio_of_sums": _means,
    "mean_of_cluster_means": _means,
    "point_estimates": _means,
    "cluster_se": _cluster_errors,
    "cluster_df": _cluster_errors,
    "jackknife_se": _cluster_errors,
    "cluster_mean.ci": _intervals,
    "ratio_of_sums.ci": _intervals,
    "ratio_of_sums.boot_se": _intervals,
    "cluster_mean.p": _cluster_p,
    "bca.acceleration": _bca,
    "ratio_of_sums.bca": _bca,
    "distinct_bootstrap_resamples": _counting,
    "prob_all_same_cluster": _counting,
    "undefined_resample_fraction": _counting,
    "montecarlo.p": _counting,
    "percentile.ranks": _percentile_ranks,
    "quantile": _quantiles,
    "medians": _medians,
    "speedup": _speed,
    "throughput": _speed,
    "paired_mean_diff": _missing,
    "validate": _validate,
    "n_clusters": _validate,
    "arm_difference_bias": _order_bias,
    "mean_log_ratio_bias": _drift_scale,
    "mean_log_ratio_A_over_B": _drift_scale,
    "ratio_of_sums_A_over_B": _drift_scale,
    "ols": _ols,
    "arm_effect": _crossover,
    "discordance": _noise,
    "adjust": _adjust,
    "westfall_young.p_adj": _max_t,
    "tost": _tost,
    "design_effect": _planning,
    "sample_size": _planning,
    "detectable_margin": _planning,
    "philox4x64_10.block": _philox,
    "numpy.random.Philox.random_raw(4)": _philox,
    "resample_plan.indices": _plan,
    "ratio_of_sums.boot": _plan,
    "ledger.decide": _ledger,
    "evalue.sign_test": _evalue,
}


def agrees(found: Any, expected: Any, tolerance: float) -> bool:
    """Absolute tolerance below 1, relative above; None, words and infinities must match."""
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(
            agrees(found[key], expected[key], tolerance) for key in expected
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(
            agrees(one, other, tolerance) for one, other in zip(found, expected, strict=True)
        )
    if expected in ("inf", "-inf"):
        return found == float(expected)
    if expected is None or isinstance(expected, str):
        return found == expected
    return found is not None and abs(found - expected) <= tolerance * max(1.0, abs(expected))


@pytest.mark.parametrize(
    "name", [vector["name"] for vector in VECTORS if vector["name"] not in WRONG_ON_PURPOSE]
)
def test_vector(name: str) -> None:
    vector = BY_NAME[name]
    found = ADAPTERS[vector["statistic"]](vector)
    assert agrees(found, vector["expected"], vector["tolerance"]), (found, vector["expected"])


def test_the_wrong_values_are_not_ours() -> None:
    rows = BY_NAME["missing_pair_unpaired_trap"]
    available = _missing({**rows, "options": {"missing": "drop-pair"}})["estimate"]
    assert not agrees(available, rows["expected"], 1e-3)
    assert list(st.percentile_ranks(10_000, "0.95") or ()) == [250, 9751]
    dropped = BY_NAME["holm_void_dropped_R"]
    assert not agrees(list(st.holm(dropped["input"]["p"])), dropped["expected"], 1e-9)
