"""The fast path against the slow reference: 500 random shapes, policies, partitions and batches."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from harness.looped import policies
from harness.looped.config import HUGINN, OURO, RAVEN_OLMO, LoopedConfig
from harness.looped.policies import Policy
from harness.looped.published import PUBLISHED
from harness.looped.reference import reference_logits
from tests.looped.fast import cached_logits
from tests.looped.models import LAYOUTS, random_model

CASES = 500
SAMPLE = 25
_BASES = {"raven_llama": "raven_llama_1b", HUGINN: "huginn_0125", RAVEN_OLMO: "raven_olmo"}


def draw_config(rng: random.Random, policy_kind: str) -> LoopedConfig:
    layout = rng.choice(LAYOUTS[:3] if policy_kind == policies.COMPRESS else LAYOUTS)
    base = PUBLISHED["ouro_1_4b" if layout == OURO else _BASES[layout]]
    groups = rng.choice((1, 2, 3))
    heads = groups if layout in (HUGINN, RAVEN_OLMO) else groups * rng.choice((1, 2))
    outer = (0, 0) if layout == OURO else (rng.randint(1, 2), rng.randint(1, 2))
    core = rng.randint(1, 3)
    if policy_kind == policies.COMPRESS:
        outer, core = (2, outer[1]), 4
    return replace(
        base,
        n_embd=rng.choice((8, 12)),
        n_heads=heads,
        n_kv_heads=groups,
        head_dim=rng.choice((2, 4)),
        intermediate=10,
        prelude=outer[0],
        core=core,
        coda=outer[1],
        loops=rng.randint(1, 5),
        vocab=13,
        block_size=32,
    )


def draw_policy(rng: random.Random, kind: str, config: LoopedConfig) -> Policy:
    window, loops = rng.randint(0, 6), config.loops
    made = {
        policies.FULL: lambda: policies.full(),
        policies.RIPE: lambda: policies.ripe(window),
        policies.FIRST: lambda: policies.first_loops(rng.randint(1, loops + 1)),
        policies.LAST: lambda: policies.last_loops(rng.randint(1, loops + 1)),
        policies.EVERY: lambda: policies.every_nth(rng.randint(1, loops + 1)),
        policies.SINKS: lambda: policies.sinks_ripe(rng.randint(0, 4), window),
        policies.SECOND: lambda: policies.second_plane(rng.randint(1, loops + 1), window),
        policies.HEADS: lambda: policies.per_head(
            tuple(rng.randint(0, 6) for _ in range(config.n_kv_heads))
        ),
        policies.COMPRESS: lambda: policies.compress(4 * rng.randint(1, loops + 1)),
    }
    return made[kind]()


KINDS = (
    policies.FULL, policies.RIPE, policies.FIRST, policies.LAST, policies.EVERY, policies.SINKS,
    policies.SECOND, policies.HEADS, policies.COMPRESS,
)  # fmt: skip


def draw_partition(rng: random.Random, length: int, longest: int | None) -> list[int]:
    parts = []
    while length:
        parts.append(rng.randint(1, min(length, longest or length)))
        length -= parts[-1]
    return parts


def run_case(number: int) -> None:
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    config = draw_config(rng, kind)
    policy = draw_policy(rng, kind, config)
    model = random_model(config, seed=number)
    texts = [
        [rng.randrange(config.vocab) for _ in range(rng.randint(2, 12))]
        for _ in range(rng.randint(1, 3))
    ]
    prompts = [rng.randint(1, len(t)) for t in texts] if rng.random() < 0.4 else None
    left = [len(t) - (prompts[i] if prompts else 0) for i, t in enumerate(texts)]
    partitions = [draw_partition(rng, length, policy.longest_pass) for length in left]
    start = rng.choice(("zero", "keyed"))
    found = cached_logits(
        model, texts, policy, partitions, loops=config.loops, prompts=prompts, start=start
    )
    for i, (text, logits) in enumerate(zip(texts, found, strict=True)):
        prompt = prompts[i] if prompts else 0
        passes = ([prompt] if prompt else []) + [1] * left[i]
        expected = reference_logits(
            model,
            text,
            policy,
            passes=passes,
            loops=config.loops,
            prompt=prompt,
            start=start,
            seed=3,
        )
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_sample_of_the_cases(number: int) -> None:
    run_case(number)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_cases() -> None:
    for number in range(SAMPLE, CASES):
        run_case(number)
