"""Sampled decoding: drafts change the speed, never the distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from harness.looped.choices import Sampled
from harness.looped.decode import generate
from harness.looped.errors import PolicyError
from harness.looped.generation import FULL_PROMPT, Decode, Sampling, Sequential, Speculative
from harness.looped.policies import Policy, deepest, full, ripe
from harness.looped.start import keyed_uniform
from tests.looped.models import CONFIGS, random_model

VOCAB = 9
ROWS = 20_000
LEAST_P = 1e-3


def _misfit(tokens: Tensor, chances: Tensor) -> float:
    """The p value of a chi-square test of counted tokens against their chances."""
    counts = np.bincount(tokens.numpy(), minlength=len(chances))
    expected = chances.numpy() * counts.sum()
    large = expected >= 5
    seen = [*counts[large], counts[~large].sum()]
    wanted = [*expected[large], expected[~large].sum()]
    if wanted[-1] == 0:
        seen, wanted = seen[:-1], wanted[:-1]
    return float(stats.chisquare(seen, wanted).pvalue)


def _logits(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(VOCAB, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_verified_draft_has_the_verifiers_distribution(temperature: float) -> None:
    choice = Sampled(temperature, range(ROWS))
    positions = torch.tensor([[7]])
    draft, target = (_logits(s).expand(ROWS, 1, VOCAB) for s in (1, 2))
    guesses = choice.drafted(draft, positions, 0)
    q = torch.softmax(_logits(1) / temperature, -1)
    p = torch.softmax(_logits(2) / temperature, -1)
    assert _misfit(torch.tensor(guesses)[:, 0], q) > LEAST_P
    chosen, _ = choice.verified(target, positions, guesses, 0)
    found = torch.tensor(chosen)[:, 0]
    assert _misfit(found, p) > LEAST_P
    kept = float((found == torch.tensor(guesses)[:, 0]).double().mean())
    assert kept == pytest.approx(float(torch.minimum(p, q).sum()), abs=0.01)
    assert _misfit(torch.tensor(choice.plain(target, positions)[0])[:, 0], p) > LEAST_P


@pytest.mark.parametrize("drafted", [False, True], ids=["plain", "drafted"])
def test_a_nucleus_is_the_fewest_tokens_with_that_much_of_the_chance(drafted: bool) -> None:
    top_p = 0.7
    choice = Sampled(1.0, range(ROWS), top_p)
    positions = torch.tensor([[7]])
    target = _logits(2).expand(ROWS, 1, VOCAB)
    whole = torch.softmax(_logits(2), -1)
    order = whole.argsort(descending=True)
    count = int((whole[order].cumsum(0) < top_p).sum()) + 1
    assert 1 < count < VOCAB
    wanted = torch.zeros_like(whole)
    wanted[order[:count]] = whole[order[:count]] / whole[order[:count]].sum()
    if drafted:
        guesses = choice.drafted(_logits(1).expand(ROWS, 1, VOCAB), positions, 0)
        chosen, _ = choice.verified(target, positions, guesses, 0)
    else:
        chosen, _ = choice.plain(target, positions)
    assert _misfit(torch.tensor(chosen)[:, 0], wanted) > LEAST_P


def test_padding_of_the_vocabulary_is_never_drawn() -> None:
    choice = Sampled(50.0, range(2000), known=VOCAB - 3)
    logits = _logits(1).expand(2000, 1, VOCAB)
    chosen = torch.tensor(choice.plain(logits, torch.tensor([[7]]))[0])
    assert set(chosen.flatten().tolist()) == set(range(VOCAB - 3))
    assert torch.equal(logits, _logits(1).expand(2000, 1, VOCAB))


@pytest.mark.parametrize("top_p", [0.0, -1.0, 1.5])
def test_a_share_that_is_none_is_refused(top_p: float) -> None:
    with pytest.raises(PolicyError, match="top_p: found"):
        Sampled(1.0, [1], top_p)


def test_a_rejected_draft_is_never_drawn_again() -> None:
    choice = Sampled(1.0, range(500))
    sure = torch.full((500, 1, VOCAB), -1e9, dtype=torch.float64)
    sure[..., 3] = 0
    other = sure.roll(1, -1)
    guesses = choice.drafted(sure, torch.tensor([[0]]), 0)
    assert {row[0] for row in guesses} == {3}
    chosen, _ = choice.verified(other, torch.tensor([[0]]), guesses, 0)
    assert {row[0] for row in chosen} == {4}


def test_uniform_numbers_are_uniform_and_independent() -> None:
    places = torch.arange(20_000)
    a, b, c = (
        keyed_uniform(torch.tensor(s), places, k).numpy() for s, k in ((1, 0), (1, 1), (2, 0))
    )
    for numbers in (a, b, c):
        assert stats.kstest(numbers, "uniform").pvalue > LEAST_P
    for x, y in ((a, b), (a, c), (a[1:], a[:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.03


CONFIG = replace(CONFIGS["huginn_0125"], prelude=1, core=1, coda=1, vocab=VOCAB, loops=3)
PROMPT = [5, 1, 7]


def _drawn(policy: Policy, mode: Decode, rows: int, batch: int) -> Tensor:
    model = random_model(CONFIG, seed=3, dtype=torch.float32)
    parts = []
    for begin in range(0, rows, batch):
        found = generate(
            model,
            [PROMPT] * batch,
            policy=policy,
            prefill=FULL_PROMPT,
            decode=mode,
            max_tokens=4,
            sampling=Sampling(1.0, tuple(range(begin, begin + batch))),
        )
        parts += [row.tokens for row in found.rows]
    return torch.tensor(parts)


def _chances(tokens: int) -> Tensor:
    """Chances of the token at place `tokens` (from 0) after the prompt, over all ways there."""
    model = random_model(CONFIG, seed=3, dtype=torch.float32)
    ways, weights = torch.tensor([PROMPT]), torch.ones(1, dtype=torch.float64)
    for _ in range(tokens):
        step = torch.softmax(model(ways)[:, -1].double(), -1)
        weights = (weights.unsqueeze(1) * step).flatten()
        after = torch.arange(VOCAB).repeat(len(ways)).unsqueeze(1)
        ways = torch.cat([ways.repeat_interleave(VOCAB, 0), after], 1)
    return weights @ torch.softmax(model(ways)[:, -1].double(), -1)


MODES = [Sequential(), Speculative(1, 3, "policy"), Speculative(1, 3, "policy", reuse=True)]


@pytest.mark.parametrize("mode", MODES, ids=["sequential", "speculative", "reuse"])
def test_decoding_has_the_models_distribution(mode: Decode) -> None:
    drawn = _drawn(full(), mode, 1200, 400)
    for place in range(4):
        assert _misfit(drawn[:, place], _chances(place)) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=["sequential", "speculative", "reuse"])
def test_decoding_has_the_models_distribution_in_many_rows(mode: Decode) -> None:
    drawn = _drawn(full(), mode, 24_000, 600)
    for place in range(4):
        assert _misfit(drawn[:, place], _chances(place)) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize("policy", [deepest(), ripe(1), ripe(3)], ids=lambda p: p.label)
def test_speculation_samples_as_sequential_decoding_does_under_ripe(policy: Policy) -> None:
    """Sub-passes included; two samples of the same distribution, token by token."""
    plain = _drawn(policy, Sequential(), 12_000, 600)
    drafted = _drawn(policy, Speculative(1, 3), 12_000, 600)
    for place in range(4):
        table = [torch.bincount(x[:, place], minlength=VOCAB) for x in (plain, drafted)]
        counts = torch.stack(table)
        counts = counts[:, counts.sum(0) > 10].numpy()
        assert stats.chi2_contingency(counts).pvalue > LEAST_P


def test_a_row_depends_on_its_seed_alone() -> None:
    model = random_model(CONFIGS["huginn_0125"])
    prompts = [[5, 9, 17, 3, 30], [12, 13], [5, 9, 17, 3, 30]]
    for mode in (Sequential(), Speculative(2, 3), Speculative(2, 3, "policy", reuse=True)):
        options = {"policy": ripe(4), "decode": mode, "loops": 4, "max_tokens": 12}
        together = generate(model, prompts, sampling=Sampling(0.8, (4, 5, 6)), **options)
        for seed, prompt, row in zip((4, 5, 6), prompts, together.rows, strict=True):
            alone = generate(model, [prompt], sampling=Sampling(0.8, (seed,)), **options)
            assert alone.rows[0].tokens == row.tokens
            assert row.near_ties == ()
        assert together.rows[0].tokens != together.rows[2].tokens


def test_logits_that_are_not_numbers_end_a_sampled_row() -> None:
    model = random_model(CONFIGS["huginn_0125"])
    model._embedding = model._embedding.clone()
    model._embedding[9] = float("nan")
    found = generate(
        model, [[5, 9], [5, 3]], sampling=Sampling(0.1, (1, 2)), loops=2, max_tokens=3, stop=(9,)
    )
    assert found.rows[0].stop_reason == "nan"
    assert found.rows[0].tokens == ()
    assert found.rows[1].stop_reason in ("stop", "length")
