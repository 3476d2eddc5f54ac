"""A plausible complete analysis, invented and seeded: every verdict word, five arms, 40 blocks."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

Json = dict[str, Any]

ARMS = {
    #            role        prefill decode  passes/token cache      accuracy
    "pristine": ("pristine", 0.62, 4.86, 1.0, 1_179_648, 351),
    "ripe": ("patched", 0.62, 3.94, 1.0, 327_680, 350),
    "selfspec": ("patched", 0.63, 3.06, 0.36, 1_179_648, 351),
    "patched": ("patched", 0.63, 2.11, 0.37, 327_680, 350),
    "shallow": ("control", 0.31, 1.92, 1.0, 589_824, 214),
}


def digest(seed: str) -> str:
    return f"{random.Random(seed).getrandbits(256):064x}"


def plan() -> Json:
    return {
        "schema": 1,
        "plan": "confirm_raven",
        "study": "raven",
        "stage": "confirm",
        "question": "ripe_selfspec_lossless_speedup",
        "title": "RIPE with self-speculation against the full cache, embedded ripe model",
        "model": {"name": "tiny_ripe", "loops": 8},
        "partitions": {"source": "arithmetic", "seed": "7", "confirm": 400},
        "arms": {name: {"role": arm[0], "backend": "looped"} for name, arm in ARMS.items()},
        "predictions": [
            {"id": name, "open": name == "P4", "confidence": 0.5, "min_clusters": 40}
            for name in ("P1", "P2", "P3", "P4", "C1")
        ],
    }


def _interval(value: float, spread: float) -> Json:
    return {"estimate": value, "low": value * (1 - spread), "high": value * (1 + spread)}


def _arm(name: str) -> Json:
    role, prefill, decode, passes, cache, right = ARMS[name]
    tokens = 400 * 31
    drafts = passes < 1
    arm: Json = {
        "role": role,
        "items": 400,
        "tokens": tokens,
        "accuracy": {"k": right, "n": 400, "low": right / 400 - 0.034, "high": right / 400 + 0.03},
        "decode_seconds": decode * tokens / 950,
        "decode_cpu_seconds": decode * tokens / 1000,
        "tokens_per_second": 1000 / (decode + prefill),
        "ms_per_token": decode * 1.05,
        "cpu_ms_per_token": decode,
        "cache_bytes_mean": str(cache),
        "phases": {
            "prefill": {"ms_per_token": _interval(prefill, 0.03)},
            "decode": {"ms_per_token": _interval(decode, 0.02)},
            "total": {"ms_per_token": _interval(prefill + decode, 0.02)},
        },
    }
    if drafts:
        arm |= {"accepted": 7990, "drafted": 9210, "tokens_per_pass": 1 / passes}
        kept = (2890, 2412, 1654, 1034) if name == "patched" else (2903, 2420, 1640, 1027)
        tried = (3120, *kept[:3])
        pairs = zip(tried, kept, strict=True)
        arm["acceptance_by_place"] = [{"tried": at, "kept": yes} for at, yes in pairs]
    arm["agreement_within"] = {"k": 398, "n": 400}
    if role != "pristine":
        same = 231 if name == "shallow" else 399
        arm["agreement_with_pristine"] = {
            "k": same,
            "n": 400,
            "low": same / 400 - 0.01,
            "high": min(1.0, same / 400 + 0.004),
            "differ_at_most": 1 - same / 400 + 0.0093,
        }
    return arm


def _bars() -> Json:
    pairs = (
        ("A/A", ("pristine", "pristine"), (1.006, 0.982, 1.031), (0.0, -0.0125, 0.0125)),
        ("A/B", ("pristine", "patched"), (2.27, 2.24, 2.31), (-0.0025, -0.0204, 0.0153)),
        ("A/known-bad", ("pristine", "shallow"), (2.53, 2.48, 2.58), (-0.3425, -0.389, -0.296)),
    )
    kinds: Json = {"time": [], "accuracy": []}
    for label, arms, *values in pairs:
        for kind, ends in zip(kinds, values, strict=True):
            found = dict(zip(("estimate", "low", "high"), ends, strict=True))
            kinds[kind].append({"label": label, "arms": list(arms), **found})
    return kinds


def _positions() -> list[Json]:
    means = {"pristine": (0.021, -0.004, -0.009, -0.006), "patched": (0.014, 0.002, -0.007, -0.010)}
    return [
        {
            "position": at,
            "arm": arm,
            "log_ratio_to_block": mean,
            "low": mean - 0.012,
            "high": mean + 0.012,
        }
        for arm, row in means.items()
        for at, mean in enumerate(row, 1)
    ]


def _series() -> list[Json]:
    source = random.Random(3)
    found = []
    for block in range(40):
        value = math.log(2.30) + source.gauss(0, 0.035) - 0.0004 * block
        found.append(
            {
                "block": block,
                "log_ratio_cpu": value,
                "log_ratio_wall": value + source.gauss(0, 0.05),
                "launch": block * 3 // 40,
                "order": "ABBA" if source.random() < 0.5 else "BAAB",
            }
        )
    return found


def _verdict(name: str, word: str, claim: str, family: str, **more: Any) -> Json:
    base = {
        "id": name,
        "claim": claim,
        "family": family,
        "word": word,
        "reasons": [],
        "confidence_level": 0.95,
        "clusters": 40,
        "n": 400,
        "point_word": word,
        "without_voids": None,
        "p": None,
    }
    return base | more


def _time(of: str, arms: tuple[str, str] = ("pristine", "patched")) -> Json:
    return {"kind": "log_ratio", "of": of, "arms": list(arms), "cluster": "block"}


def _verdicts(series: list[Json]) -> list[Json]:
    centre = math.exp(sum(row["log_ratio_cpu"] for row in series) / len(series))
    return [
        _verdict(
            "P1", "held", "decoding takes at most two thirds of the CPU time", "primary",
            estimand=_time("decode_cpu_seconds"), unit="ratio", estimate=centre,
            low=centre * 0.986, high=centre * 1.014, method="t on block log ratios",
            region=[1.5, None], author_confidence=0.9,
            chance_if_no_effect=0.0001,
        ),
        _verdict(
            "P2", "inconclusive", "answers are right as often, within two points", "secondary",
            estimand={"kind": "mean_diff", "of": "correct", "cluster": "item"},
            unit="share_difference", estimate=-0.0025, low=-0.0204, high=0.0153, clusters=400,
            method="Tango score interval, paired", region=[-0.02, None], author_confidence=0.8,
            chance_if_no_effect=0.83,
        ),
        _verdict(
            "P3", "failed", "at least nine in ten drafted tokens are accepted", "secondary",
            estimand={"kind": "rate", "of": "accepted", "per": "drafted", "cluster": "block"},
            unit="share", estimate=0.8675, low=0.8571, high=0.8776,
            method="ratio of sums, CR2", region=[0.9, None], author_confidence=0.7,
            chance_if_no_effect=None,
        ),
        _verdict(
            "P4", "void", "the whole answer takes less wall time", "descriptive",
            estimand=_time("total_seconds"), unit="ratio", estimate=None, low=None, high=None,
            reasons=["the wall clock was voided in 6 of 40 blocks, above the frozen 10 %"],
            method="t on block log ratios", region=[1.0, None], open=True,
            author_confidence=0.6, clusters=34,
        ),
        _verdict(
            "C1", "failed", "two loops give the same answers", "control",
            estimand={"kind": "agreement", "of": "token_ids", "cluster": "item"},
            unit="share", estimate=0.5775, low=0.5286, high=0.6251, clusters=400,
            method="Clopper–Pearson", region=[0.99, None], author_confidence=0.02,
            expected="failed",
        ),
    ]  # fmt: skip


def analysis() -> Json:
    series = _series()
    return {
        "format": 1,
        "plan": "confirm_raven",
        "run_id": "0001-1a2b3c4d5e6f",
        "plan_digest": digest("plan"),
        "seal_digest": digest("seal"),
        "role": "registered",
        "attempt": 1,
        "attempts": 2,
        "scope": {
            "model": "tiny_ripe",
            "loops": 8,
            "source": "arithmetic",
            "device_class": "cpu-x86_64-avx2",
            "anchored": False,
        },
        "arms": {name: _arm(name) for name in ARMS},
        "verdicts": _verdicts(series),
        "aa": {
            "interval": {"estimate": 0.0061, "low": -0.0183, "high": 0.0305, "confidence": 0.9},
            "delta": 0.1,
            "ok": True,
        },
        "order": {
            "drift": {"estimate": -0.0142, "low": -0.0391, "high": 0.0107},
            "first_run": {"estimate": 0.0312, "low": 0.0081, "high": 0.0543},
            "carry_over": {"estimate": 0.0018, "low": -0.0150, "high": 0.0186},
        },
        "blocks": {"planned": 40, "scored": 40, "interrupted": 1, "void": 0, "spare_used": 1},
        "cost_model": {
            "per_pass_us": 212.0,
            "per_loop_pass_us": 431.0,
            "per_token_loop_us": 9.7,
            "r2": 0.987,
            "visits": 208,
            "verified_tokens": 5,
            "batch": 8,
            "verify_ratio": 1.61,
        },
        "threats": ["One checkpoint and one item source: nothing here speaks for others."],
        "near_ties": {"counted": 17, "unexplained": 2, "tokens": 12400, "margin": 0.0002},
        "series": {"pair": series, "arms": {}, "positions": _positions()},
        "bars": _bars(),
    }


def lock() -> Json:
    figures = [
        ("window_0", 241.0, 0.9841, False, "token_match 0.9841 is below 0.999", None),
        ("window_4", 258.3, 0.9993, True, None, 1),
        ("window_16", 249.1, 0.9998, True, None, 2),
        ("window_64", 221.7, 1.0, True, None, 3),
    ]
    return {
        "format": 1,
        "schema": 1,
        "plan": "confirm_raven",
        "study": "raven",
        "stage": "confirm",
        "question": "ripe_selfspec_lossless_speedup",
        "attempt": 1,
        "tool_version": "0.1.0",
        "frozen_utc": "2026-03-14T09:26:53.589793Z",
        "plan_digest": digest("plan"),
        "nonce": digest("nonce")[:32],
        "order_digest": digest("order"),
        "partitions": {"confirm": {"count": 400, "content_digest": digest("items")}},
        "selection": {
            "source_plan": "select_raven",
            "rule": {
                "maximize": "tokens_per_second",
                "subject_to": [{"metric": "token_match", "at_least": 0.999}],
            },
            "figures": [
                {
                    "arm": arm,
                    "metrics": {"tokens_per_second": speed, "token_match": match},
                    "admissible": admissible,
                    "reason": reason,
                    "rank": rank,
                }
                for arm, speed, match, admissible, reason, rank in figures
            ],
            "chosen": "window_4",
        },
        "files": {"conf": {"conf/confirm_raven.yaml": {"bytes": "1841", "sha256": digest("c")}}},
        "device_class": "cpu-x86_64-avx2",
        "threads": 1,
        "parents": {"select_lock_digest": digest("sl"), "select_seal_digest": digest("ss")},
        "git": {"commit": digest("git")[:40], "dirty": False},
        "ledger_head": {"count": 5, "digest": digest("h")},
    }


def head() -> Json:
    return {"count": 9, "digest": digest("head")}


def older() -> Json:
    """Return an analysis that was written before the optional fields were there."""
    found = analysis()
    del found["bars"], found["series"]["positions"]
    for arm in found["arms"].values():
        arm.pop("acceptance_by_place", None)
        arm.pop("agreement_within")
    for verdict in found["verdicts"]:
        verdict.pop("chance_if_no_effect", None)
    return found


def hostile() -> Json:
    """Return an analysis in which every free text tries to break out of its page."""
    found = copy.deepcopy(analysis())
    bad = "<script>alert(1)</script> | a$b%c_d \\input{x} `q` [l](http://x) \x1b[31m\nnext"
    found["verdicts"][0]["claim"] = bad
    found["verdicts"][1]["reasons"] = [bad]
    found["verdicts"][2]["method"] = bad
    found["threats"] = [bad]
    found["scope"]["model"] = bad
    found["arms"][bad] = found["arms"].pop("selfspec")
    found["bars"]["time"][0] |= {"label": bad, "arms": [bad, bad]}
    found["bars"]["accuracy"][1] = {"label": bad, "not_estimable": bad}
    found["series"]["positions"][0]["arm"] = bad
    return found


def ledger_records() -> list[Json]:
    """Return a chain: a confirm plan on its second attempt, one never run, a replication."""
    from harness.report.ledger_view import record_digest

    plan, ask = "confirm_raven", "ripe_selfspec_lossless_speedup"
    first = {"plan": "confirm_raven_a", "run_id": "0001-aaaaaaaaaaaa"}
    second = {"plan": plan, "run_id": "0001-1a2b3c4d5e6f"}
    third = {"plan": plan, "run_id": "0002-6f5e4d3c2b1a"}
    told = [{key: row[key] for key in ("id", "word", "estimate", "low", "high")} for row in _told()]
    events = [
        ("plan.frozen", {"plan": first["plan"], "question": ask, "lock_digest": digest("l1")}),
        ("run.started", {**first, "role": "registered"}),
        ("run.abandoned", {**first, "reason": "the machine was taken away"}),
        ("plan.frozen", {"plan": "sensitivity", "question": "start_state_sensitivity"}),
        ("plan.frozen", {"plan": plan, "question": ask, "lock_digest": digest("l2")}),
        ("run.started", {**second, "role": "registered"}),
        ("run.sealed", {**second, "records": {"visits": 280}}),
        ("verdicts", {**second, "verdicts": told}),
        ("result.opened", second),
        ("run.adopted", {**third, "role": "replication"}),
        ("verdicts", {**third, "verdicts": told[:2]}),
    ]
    records: list[Json] = []
    for n, (kind, entry) in enumerate(events, 1):
        prev = record_digest(records[-1]) if records else "0" * 64
        at = f"2026-03-{13 + n:02d}T09:26:53.589793Z"
        record = {"format": 1, "n": n, "prev": prev, "kind": kind, "at": at, "body": entry}
        records.append(record)
    return records


def _told() -> list[Json]:
    found: list[Json] = analysis()["verdicts"]
    return found


def ledger_analyses() -> dict[tuple[str, str], Json]:
    second = copy.deepcopy(analysis())
    second |= {"role": "replication", "run_id": "0002-6f5e4d3c2b1a", "verdicts": _told()[:2]}
    return {
        ("confirm_raven", "0001-1a2b3c4d5e6f"): analysis(),
        ("confirm_raven", "0002-6f5e4d3c2b1a"): second,
    }
