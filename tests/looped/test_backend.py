"""The looped engine behind the backend protocol: every policy and decoder that a plan can name."""

from __future__ import annotations

from typing import Any

import pytest

from harness.backends.base import BackendError, Generate, Generated, Hello
from harness.backends.looped import LoopedBackend, make
from harness.backends.looped_arm import Draws, policy_of
from harness.backends.serve import answer
from harness.looped import policies
from harness.plan.caching import OPTIONS, cache_problems, decode_problems
from harness.plan.schema import CacheSpec, DecodeSpec
from harness.store.canonical import canonical

LOOPS = 8
CACHES: list[dict[str, Any]] = [
    {"policy": "full"},
    {"policy": "deepest"},
    {"policy": "ripe", "window": 5},
    {"policy": "first_loops", "planes": 3},
    {"policy": "last_planes", "planes": 2},
    {"policy": "every_mth", "every": 3},
    {"policy": "sinks_ripe", "sinks": 2, "window": 4},
    {"policy": "second_plane", "plane": 3, "window": 4},
    {"policy": "per_head", "windows": [4, 5, 6, 9]},
]
RESTARTED = {"inner": 4, "on_change": "restart"}
DECODES: list[dict[str, Any]] = [
    {"kind": "sequential"},
    {"kind": "speculative", "draft_loops": 2, "draft_tokens": 3},
    {"kind": "speculative", "draft_loops": 2, "draft_tokens": 3, "draft_reads": "policy"},
]
ITEMS = (
    "Question: Ann has 12 pens and buys 5 more. How many pens is that?\nAnswer:",
    "Question: Tom has 7 books. He gives 2 books to Eva. How many books are left?\nAnswer:",
)


def engine(
    cache: dict[str, Any], decode: dict[str, Any], *, loops: int | None = None, tokens: int = 10
) -> LoopedBackend:
    """A backend that was told an arm as a plan has it, by way of the plan's own types."""
    spec, way = CacheSpec.model_validate(cache), DecodeSpec.model_validate(decode)
    assert not [*cache_problems(spec), *decode_problems(way, spec)]
    backend = make()
    arm = {
        "role": "patched",
        "cache": spec.model_dump(mode="json", exclude_none=True),
        "decode": way.model_dump(mode="json", exclude_none=True),
    }
    backend.hello(hello(arm if loops is None else {**arm, "loops": loops}, tokens))
    return backend


def hello(arm: dict[str, Any], tokens: int = 10) -> Hello:
    model = {"name": "tiny_ripe", "loops": LOOPS, "dtype": "float64", "device": "cpu"}
    task = {"max_tokens": tokens, "stop": "\n"}
    return Hello(protocol=1, arm=arm, model=model, task=task, threads=1, seed="")


def visit(backend: LoopedBackend, names: tuple[str, ...] = ("a", "b")) -> Generated:
    items = dict(zip(("a", "b"), ITEMS, strict=True))
    asked = [{"id": name, "prompt": items[name]} for name in names]
    return backend.generate(Generate(id=1, items=asked, timeout_s=60.0))  # type: ignore[typeddict-item]


def tokens_of(found: Generated) -> list[list[int]]:
    return [result["token_ids"] for result in found["results"]]


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: cache["policy"])
def test_every_policy_decodes_alike_with_and_without_drafts(cache: dict[str, Any]) -> None:
    plain, *drafted = (visit(engine(cache, decode)) for decode in DECODES)
    for found in drafted:
        assert tokens_of(found) == tokens_of(plain)
        assert found["patch_counters"]["drafts"] > 0
    holds_less = plain["patch_counters"]["bytes_not_held"] > 0
    assert holds_less == (cache["policy"] != "full")
    assert plain["counters"]["loop_passes"] == plain["counters"]["passes"] * LOOPS


def test_every_policy_of_a_plan_is_tried_or_refused() -> None:
    assert {cache["policy"] for cache in CACHES} | {"compress"} == set(OPTIONS)
    assert policy_of({"policy": "compress", "slots": 8}) == policies.compress(8)
    with pytest.raises(ValueError, match="2 prelude and 4 core layers"):
        engine({"policy": "compress", "slots": 8}, DECODES[0])
    with pytest.raises(ValueError, match="4 KV heads"):
        engine({"policy": "per_head", "windows": [1, 2]}, DECODES[0])


def test_reused_drafts_change_the_work_and_not_the_tokens() -> None:
    cache = {"policy": "ripe", "window": 4}
    decode = {**DECODES[2], "reuse": True}
    plain, reusing = visit(engine(cache, DECODES[2])), visit(engine(cache, decode))
    assert tokens_of(plain) == tokens_of(reusing)
    saved = plain["counters"]["token_loops"] - reusing["counters"]["token_loops"]
    assert saved == 2 * 2 * plain["counters"]["draft_passes"]
    with pytest.raises(ValueError, match="at most its window of 2"):
        engine({"policy": "ripe", "window": 2}, decode)


def test_waves_that_restart_decode_as_the_full_cache_does() -> None:
    plain = visit(engine({"policy": "full"}, DECODES[0]))
    found = visit(engine({"policy": "full"}, {"kind": "wavefront", "wave": RESTARTED}))
    assert tokens_of(found) == tokens_of(plain)
    assert found["patch_counters"]["waves"] == found["counters"]["passes"] > 0
    assert found["timing"]["total_ns"] >= found["timing"]["decode_ns"] > 0
    alike = [(r["finish"], r["text"], r["cache_bytes"]) for r in found["results"]]
    assert alike == [(r["finish"], r["text"], r["cache_bytes"]) for r in plain["results"]]
    with pytest.raises(ValueError, match="divisor of the 8 loops"):
        engine({"policy": "full"}, {"kind": "wavefront", "wave": {"inner": 3}})


@pytest.mark.parametrize(
    ("wave", "name"),
    [
        (RESTARTED, "decoding equals sequential"),
        ({"inner": LOOPS}, "decoding equals sequential"),
        ({"inner": 4}, "this decoder approximates"),
        ({"inner": LOOPS, "headway": 2}, "this decoder approximates"),
        ({**RESTARTED, "exit_change": 0.5}, "this decoder approximates"),
    ],
)
@pytest.mark.parametrize("policy", ["full", "deepest"])
def test_the_selftest_asks_of_waves_what_they_promise(
    wave: dict[str, Any], name: str, policy: str
) -> None:
    if policy == "deepest" and wave == RESTARTED:
        name = "this decoder approximates"
    backend = engine({"policy": policy}, {"kind": "wavefront", "wave": wave})
    first, *others = backend.selftest(list(ITEMS))
    assert first["name"].startswith(name)
    assert first["ok"] and all(check["ok"] for check in others)


def test_draws_depend_on_the_item_and_the_seed_only() -> None:
    cache = {"policy": "ripe", "window": 4}
    drawn = {"kind": "sequential", "temperature": 4.0, "seed": 3}
    both = tokens_of(visit(engine(cache, drawn)))
    assert tokens_of(visit(engine(cache, drawn), ("b",))) == both[1:]
    assert tokens_of(visit(engine(cache, {**drawn, "seed": 4}))) != both
    greedy = tokens_of(visit(engine(cache, {"kind": "sequential"})))
    assert greedy != both
    narrow = tokens_of(visit(engine(cache, {**drawn, "top_p": 1e-9})))
    assert narrow == greedy


def test_seeds_of_items_differ_and_stay() -> None:
    seeds = Draws(1.0, 1.0, 7, 600).sampling([f"item-{i}" for i in range(100)]).seeds
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert Draws(0.5, 0.9, 7, 600).sampling(["item-3"]).seeds == (seeds[3],)


@pytest.mark.parametrize(
    "decode", [DECODES[0], {"kind": "wavefront", "wave": RESTARTED}], ids=["plain", "waves"]
)
def test_more_than_the_budget_is_out_of_memory(decode: dict[str, Any]) -> None:
    backend = engine({"policy": "full", "budget_bytes": 100_000}, decode)
    with pytest.raises(BackendError, match="budget: the cache needs") as caught:
        visit(backend)
    assert caught.value.kind == "oom"
    assert visit(engine({"policy": "full", "budget_bytes": 10**9}, decode))["results"]


def test_a_budget_reaches_the_wire_as_oom() -> None:
    backend = engine({"policy": "full", "budget_bytes": 1}, DECODES[0])
    request = {"op": "generate", "id": 1, "items": [{"id": "a", "prompt": "x"}], "timeout_s": 1.0}
    reply, _ = answer(backend, canonical(request))
    assert (reply["ok"], reply["kind"]) == (False, "oom")


def test_fewer_loops_are_a_claim_that_its_counter_bears_out() -> None:
    backend = engine({"policy": "full"}, DECODES[0], loops=4)
    assert visit(backend)["patch_counters"]["loops_changed"] > 0
    whole = engine({"policy": "full"}, DECODES[0])
    assert not any(visit(whole)["patch_counters"].values())
    assert not any(whole.probe()["counters"].values())


@pytest.mark.parametrize(
    ("cache", "word"),
    [
        ({"policy": "full", "window": 3}, "cache.window: found 3 with policy full; only ripe"),
        ({"policy": "ripe"}, "cache.window: missing"),
        ({"policy": "sinks_ripe", "window": 3}, "cache.sinks: missing"),
        ({"policy": "last_planes", "every": 3}, "cache.every: found 3"),
    ],
)
def test_options_of_another_policy_are_named(cache: dict[str, Any], word: str) -> None:
    assert any(word in problem for problem in cache_problems(CacheSpec.model_validate(cache)))


@pytest.mark.parametrize(
    ("decode", "policy", "word"),
    [
        ({"kind": "speculative", "draft_loops": 2}, "full", "needs draft_loops and draft_tokens"),
        ({"kind": "sequential", "draft_loops": 2}, "full", "sequential takes no draft_loops"),
        ({**DECODES[1], "reuse": True}, "full", "decode.reuse: needs draft_reads policy"),
        ({"kind": "wavefront"}, "full", "wavefront needs it"),
        ({"kind": "sequential", "wave": {"inner": 1}}, "full", "wavefront needs it"),
        ({"kind": "wavefront", "wave": {"inner": 1}}, "every_mth", "full or deepest"),
        ({"kind": "sequential", "seed": 1}, "full", "need a temperature"),
        ({"kind": "wavefront", "wave": {"inner": 1}, "temperature": 1.0}, "full", "draws nothing"),
    ],
)
def test_decoders_that_make_no_sense_are_named(
    decode: dict[str, Any], policy: str, word: str
) -> None:
    options = {"every": 2} if policy == "every_mth" else {}
    cache = CacheSpec.model_validate({"policy": policy, **options})
    problems = list(decode_problems(DecodeSpec.model_validate(decode), cache))
    assert any(word in problem for problem in problems)


def test_old_plans_say_the_same_bytes() -> None:
    cache = CacheSpec.model_validate({"policy": "ripe", "window": 4})
    decode = DecodeSpec.model_validate(DECODES[1])
    assert cache.model_dump(mode="json", exclude_none=True) == {
        "policy": "ripe",
        "window": 4,
        "prefill": "full_prompt",
    }
    assert decode.model_dump(mode="json", exclude_none=True) == DECODES[1]
