"""Decoding: speculation, batches and sub-passes change the speed, never the tokens."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from harness.looped.decode import generate
from harness.looped.engine import Engine
from harness.looped.errors import LoopedError, PolicyError
from harness.looped.generation import (
    EXACT,
    FULL_PROMPT,
    Decode,
    Generation,
    Sampling,
    Sequential,
    Speculative,
)
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, deepest, full, per_head, ripe
from harness.looped.reference import reference_greedy

R = 4
PROMPTS = [[5, 99, 17, 3, 64, 120, 8], [77, 2, 63, 9, 1, 1, 30, 31, 90, 4, 6], [12, 13]]
POLICIES = [full(), deepest(), ripe(1), ripe(2), ripe(4), ripe(40)]


def _run(
    model: LoopedLM,
    prompts: list[list[int]],
    policy: Policy,
    prefill: str,
    decode: Decode,
    count: int = 14,
    stop: tuple[int, ...] = (),
) -> Generation:
    return generate(
        model,
        prompts,
        policy=policy,
        prefill=prefill,
        decode=decode,
        loops=R,
        max_tokens=count,
        stop=stop,
        start="keyed",
        seed=11,
    )


def _tokens(generation: Generation) -> list[tuple[int, ...]]:
    return [row.tokens for row in generation.rows]


@pytest.mark.parametrize("prefill", [EXACT, FULL_PROMPT])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.label)
def test_speculation_and_batches_keep_the_tokens(
    huginn: LoopedLM, policy: Policy, prefill: str
) -> None:
    alone = [_tokens(_run(huginn, [p], policy, prefill, Sequential()))[0] for p in PROMPTS]
    assert _tokens(_run(huginn, PROMPTS, policy, prefill, Sequential())) == alone
    for loops, drafts, reads in product((1, 3), (1, 4), ("deepest", "policy")):
        mode = Speculative(loops, drafts, reads)
        assert _tokens(_run(huginn, PROMPTS, policy, prefill, mode)) == alone
        assert _tokens(_run(huginn, PROMPTS[1:2], policy, prefill, mode)) == alone[1:2]


@pytest.mark.parametrize("right", range(5))
@pytest.mark.parametrize("policy", [full(), deepest(), ripe(2), ripe(4)], ids=lambda p: p.label)
def test_every_place_of_rejection_keeps_the_tokens(
    huginn: LoopedLM, policy: Policy, right: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts are replaced by ones that are right up to a place, and another one in each row."""
    plain = _tokens(_run(huginn, PROMPTS, policy, FULL_PROMPT, Sequential()))
    draft = Engine.draft
    begins = [len(prompt) for prompt in PROMPTS]

    def forged(
        engine: Engine, tokens: list[int], loops: int, *, deepest: bool, ahead: int
    ) -> list[int]:
        draft(engine, tokens, loops, deepest=deepest, ahead=ahead)
        forged_tokens = []
        for row, (begin, length) in enumerate(zip(begins, engine.cache.lengths, strict=True)):
            place = length - begin + ahead + 1
            token = plain[row][place] if place < len(plain[row]) else 0
            forged_tokens.append(token if ahead < (right + row) % 5 else (token + 1) % 128)
        return forged_tokens

    monkeypatch.setattr(Engine, "draft", forged)
    found = _run(huginn, PROMPTS, policy, FULL_PROMPT, Speculative(1, 4))
    assert _tokens(found) == plain
    for row, result in enumerate(found.rows):
        accepted = (right + row) % 5
        assert result.counters.kept[:accepted] == result.counters.tried[:accepted]
        assert not any(result.counters.kept[accepted:])


@pytest.mark.parametrize("full_prompt", [False, True])
@pytest.mark.parametrize("policy", [full(), deepest(), ripe(2)], ids=lambda p: p.label)
def test_sequential_decoding_equals_the_reference(
    any_model: LoopedLM, policy: Policy, full_prompt: bool
) -> None:
    expected = reference_greedy(
        any_model,
        PROMPTS[0],
        policy,
        count=5,
        loops=R,
        full_prompt=full_prompt,
        start="keyed",
        seed=11,
    )
    mode = FULL_PROMPT if full_prompt else EXACT
    found = _run(any_model, PROMPTS[:1], policy, mode, Sequential(), count=5)
    assert list(found.rows[0].tokens) == expected


def test_perfect_drafts_are_all_accepted(huginn: LoopedLM) -> None:
    """With drafts one loop short of a settled state, whole blocks pass, bonus token included."""
    found = generate(
        huginn, PROMPTS[:1], decode=Speculative(47, 4, "policy"), loops=48, max_tokens=11
    )
    counters = found.counters
    assert counters.kept == counters.tried
    assert counters.verify_passes == 2
    assert len(found.rows[0].tokens) == 11


@pytest.mark.parametrize("mode", [Sequential(), Speculative(2, 4, "policy")], ids=["seq", "spec"])
def test_rows_end_at_stop_or_limit(huginn: LoopedLM, mode: Decode) -> None:
    plain = _tokens(_run(huginn, PROMPTS, full(), EXACT, Sequential()))
    stop = plain[0][5]
    found = _run(huginn, PROMPTS, full(), EXACT, mode, stop=(stop,))
    for row, whole in zip(found.rows, plain, strict=True):
        end = whole.index(stop) + 1 if stop in whole else len(whole)
        assert row.tokens == whole[:end]
        assert row.stop_reason == ("stop" if stop in whole else "length")


def test_single_token_answers_need_no_decoding(huginn: LoopedLM) -> None:
    found = _run(huginn, PROMPTS, full(), EXACT, Speculative(1, 3), count=1)
    assert [len(row.tokens) for row in found.rows] == [1, 1, 1]
    assert found.counters.verify_passes == 0


def test_nan_logits_end_a_row_and_leave_the_others_alone() -> None:
    from harness.looped.weights import load
    from tests.looped.conftest import GOLDEN

    model = load(GOLDEN / "huginn_random", dtype=torch.float64)
    clean = _tokens(_run(model, PROMPTS, full(), EXACT, Sequential()))
    only_first = next(
        t
        for t in PROMPTS[1]
        if t not in {*PROMPTS[0], *PROMPTS[2]}
        and not any(t in tokens for tokens in (clean[0], clean[2]))
    )
    # The head is tied, so poison the input side only.
    poisoned = model.tensors["transformer.wte.weight"].clone()
    poisoned[only_first] = float("nan")
    model._embedding = poisoned
    found = _run(model, PROMPTS, full(), EXACT, Speculative(1, 2))
    assert [row.stop_reason for row in found.rows] == ["length", "nan", "length"]
    assert found.rows[1].tokens == ()
    assert [found.rows[0].tokens, found.rows[2].tokens] == [clean[0], clean[2]]


def test_counters_and_times_add_up(huginn: LoopedLM) -> None:
    found = _run(huginn, PROMPTS, ripe(5), FULL_PROMPT, Speculative(2, 3))
    counters = found.counters
    rounds = max(row.counters.verify_passes for row in found.rows)
    assert counters.verify_passes == rounds
    assert counters.draft_passes == 3 * rounds
    assert counters.loops_run == R + rounds * (R + 3 * 2)
    assert counters.accepted == sum(row.counters.accepted for row in found.rows)
    assert found.total.wall_ns == found.prefill.wall_ns + found.decode.wall_ns
    assert min(found.prefill.wall_ns, found.decode.wall_ns, found.decode.cpu_ns) > 0
    assert found.cache_peak_bytes >= found.cache_held_bytes > 0


def test_bad_options_are_refused_in_one_line(huginn: LoopedLM) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"prompts": [[]]}, "prompts: found an empty one"),
        ({"prompts": [[128]]}, "prompts: found token"),
        ({"prefill": "fast"}, "prefill: found 'fast', expected one of exact, full_prompt"),
        ({"max_tokens": 0}, "max_tokens: found 0"),
        ({"max_tokens": 300}, "tokens: found 307 in a row, expected at most 256"),
        ({"loops": 0}, "loops: found 0"),
        ({"decode": Speculative(8, 2), "loops": 8}, "draft_loops: found 8, expected fewer"),
        ({"policy": per_head((1,))}, "found 1 windows, expected one for each of the 4 KV heads"),
        ({"sampling": Sampling(0.5, (1, 2))}, "seeds: found 2, expected one for each of 1 rows"),
        ({"sampling": Sampling(0.0, (1,))}, "temperature: found 0.0, expected more than 0"),
        (
            {"decode": Speculative(1, 4, "policy", True), "policy": ripe(3)},
            "at most its window of 3",
        ),
        ({"budget": 1000}, "budget: the cache needs"),
        ({"start": "random"}, "start: found 'random'"),
    ]
    for options, message in cases:
        arguments: dict[str, object] = {"prompts": PROMPTS[:1], **options}
        with pytest.raises(LoopedError, match=message):
            generate(huginn, **arguments)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="draft_policy: found 'best'"):
        Speculative(1, 1, "best")
    with pytest.raises(PolicyError, match="reuse: found drafts that read the deepest plane"):
        Speculative(1, 1, reuse=True)
    with pytest.raises(PolicyError, match="draft_loops, draft_tokens: found 0, 1"):
        Speculative(0, 1)
