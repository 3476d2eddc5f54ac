"""What must be exact, point by point; the wider checks live in `exactness`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.looped.cache import PlaneCache
from harness.looped.errors import LoopedError, PolicyError
from harness.looped.generation import EXACT, Sequential, Speculative
from harness.looped.memory import ring_columns
from harness.looped.model import LoopedLM
from harness.looped.policies import deepest, first_loops, full, last_loops, ripe
from harness.looped.reference import reference_logits
from tests.looped.exactness import CHECKS, KEYED, PROMPTS, TEXT, R, close, greedy, literal, model
from tests.looped.fast import cached_logits
from tests.looped.models import CONFIGS, random_model


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_exactness(check: Callable[[], None]) -> None:
    check()


def test_one_loop_makes_all_policies_equal() -> None:
    (expected,) = cached_logits(model(), [TEXT], full(), [[13]], loops=1)
    for policy in (deepest(), ripe(3), first_loops(1), last_loops(1)):
        (found,) = cached_logits(model(), [TEXT], policy, [[1] * 13], loops=1)
        close(found, expected)


def test_a_window_over_the_text_is_the_full_cache() -> None:
    (expected,) = cached_logits(model(), [TEXT], full(), [[13]], loops=R)
    for parts in ([13], [4, 9], [1] * 13):
        (found,) = cached_logits(model(), [TEXT], ripe(12), [parts], loops=R)
        close(found, expected)


@pytest.mark.parametrize("window", [0, 1, 4])
def test_w_plus_1_is_tight(window: int) -> None:
    """One more token and a query needs a plane that is not there: refused, never run."""
    cache = PlaneCache(model(), ripe(window), rows=1, capacity=13, loops=R, longest_pass=13)
    cache.open(window + 1, R)
    with pytest.raises(PolicyError, match=f"found {window + 2} tokens, expected at most"):
        cache.open(window + 2, R)
    passes = [window + 2, *[1] * (11 - window)]
    with pytest.raises(PolicyError, match="does not exist yet"):
        reference_logits(model(), TEXT, ripe(window), passes=passes, loops=R)


def test_the_three_meanings_of_prefill_differ() -> None:
    """Exact, full_prompt and the full cache agree where they must and nowhere else."""
    exact, prompted, whole = literal(ripe(2)), literal(ripe(2), prompt=6), literal(full())
    close(prompted[:6], whole[:6])
    close(exact[:3], whole[:3])
    assert (exact[3:] - whole[3:]).abs().amax(-1).min() > 1e-6
    assert (prompted[6:] - exact[6:]).abs().amax(-1).min() > 1e-6
    assert (prompted[9:] - whole[9:]).abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("window", [0, 3])
def test_a_ring_holds_the_window_and_a_block(window: int) -> None:
    cache = PlaneCache(model(), ripe(window), rows=2, capacity=30, loops=R, longest_pass=9, reach=5)
    longest = max(min(9, window + 1), 5)
    assert ring_columns(ripe(window), longest) == window + longest
    assert {s.keys.shape[1] for ring in cache.rings.values() for s in ring} == {window + longest}
    assert sorted(cache.rings) == [1, 2, 3] and sorted(cache.planes) == [4]


@pytest.mark.parametrize("name", ["huginn_0125", "raven_llama_1b", "raven_olmo", "ouro_1_4b"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_padding_changes_nothing(name: str, dtype: torch.dtype) -> None:
    net = random_model(CONFIGS[name])
    rows = [TEXT[:6], TEXT[4:6], TEXT[2:7]]
    alone = [net(torch.tensor([row]), loops=R, **KEYED)[0] for row in rows]
    for left in (True, False):
        pads = [[0] * (6 - len(row)) for row in rows]
        pairs = list(zip(rows, pads, strict=True))
        ids = torch.tensor([pad + row if left else row + pad for row, pad in pairs])
        ones = [[1] * len(row) for row in rows]
        marks = [pad + one if left else one + pad for one, pad in zip(ones, pads, strict=True)]
        found = net(ids, loops=R, mask=torch.tensor(marks).to(dtype), **KEYED)
        assert not found.isnan().any()
        for i, row in enumerate(rows):
            places = slice(6 - len(row), 6) if left else slice(0, len(row))
            close(found[i, places], alone[i])


def test_bad_masks_are_refused() -> None:
    net, ids = model(), torch.tensor([[1, 2, 3]])
    for mask, message in (
        (torch.ones(1, 2).bool(), r"mask: found \(1, 2\) of torch.bool, expected \(1, 3\)"),
        (torch.ones(1, 3), "of torch.float32, expected"),
        (torch.zeros(1, 3).bool(), "found a row of padding only"),
    ):
        with pytest.raises(LoopedError, match=message):
            net(ids, mask=mask)
    cache = PlaneCache(net, full(), rows=1, capacity=4, loops=R, longest_pass=3)
    with pytest.raises(LoopedError, match="mask: found one beside a cache"):
        net(ids, loops=R, cache=cache, mask=torch.ones(1, 3).bool())


@pytest.mark.parametrize("mode", [Sequential(), Speculative(2, 4, "policy", reuse=True)])
def test_stops_and_limits_cut_alike(mode: Sequential | Speculative) -> None:
    """At every possible length, and with the stop token at every possible place of a block."""
    from harness.looped.decode import generate

    net = model()
    plain = greedy(ripe(4), Sequential(), EXACT)

    def run(count: int, stop: tuple[int, ...]) -> list[tuple[int, ...]]:
        found = generate(
            net, PROMPTS, policy=ripe(4), decode=mode, loops=R, max_tokens=count, stop=stop, **KEYED
        )
        sizes = [len(p) + len(r.tokens) - 1 for p, r in zip(PROMPTS, found.rows, strict=True)]
        assert found.cache_held_bytes == sum(_held(net, size) for size in sizes)
        return [row.tokens for row in found.rows]

    for count in range(1, 8):
        assert run(count, ()) == [row[:count] for row in plain]
    for token in plain[0][:7]:
        cut = [row[: row.index(token) + 1] if token in row else row for row in plain]
        assert run(12, (token,)) == cut


def _held(net: LoopedLM, tokens: int) -> int:
    from harness.looped.memory import cache_bytes

    return cache_bytes(net.config, ripe(4), tokens, R, 8)


@pytest.mark.gpu
def test_keyed_states_are_the_same_on_cuda() -> None:
    from harness.looped.start import keyed_state, keyed_sums, keyed_uniform

    places = torch.arange(300)
    there = places.cuda()
    assert torch.equal(keyed_sums(7, places, 64), keyed_sums(7, there, 64).cpu())
    assert torch.equal(keyed_state(7, places, 64, 0.6), keyed_state(7, there, 64, 0.6).cpu())
    seed = torch.tensor(7)
    found = keyed_uniform(seed.cuda(), there, 1)
    assert torch.equal(keyed_uniform(seed, places, 1), found.cpu())
