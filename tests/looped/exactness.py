"""The exactness checks as plain functions, so that mutants can be held against the same ones.

Each compares a fast path with the slow reference, or with the same path used differently, in
float64 on a small random model, and raises AssertionError where they differ.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.looped.decode import generate
from harness.looped.engine import Engine
from harness.looped.generation import EXACT, FULL_PROMPT, Decode, Sequential, Speculative
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, deepest, full, ripe
from harness.looped.reference import reference_greedy, reference_logits
from harness.looped.replaying import policy_logits
from tests.looped.fast import cached_logits
from tests.looped.models import CONFIGS, random_model

R = 4
TEXT = [5, 9, 17, 3, 30, 12, 8, 8, 1, 27, 2, 6, 9]
PROMPTS = [[5, 9, 17, 3, 30], [7, 2, 6, 9, 1, 1, 30, 21, 4], [12, 13]]
KEYED = {"start": "keyed", "seed": 3}


def model() -> LoopedLM:
    return random_model(CONFIGS["huginn_0125"], seed=5)


def close(found: Tensor, expected: Tensor) -> None:
    assert torch.allclose(found, expected, rtol=0, atol=1e-10), (
        f"differs by {(found - expected).abs().max()}"
    )


def literal(policy: Policy, prompt: int = 0) -> Tensor:
    passes = ([prompt] if prompt else []) + [1] * (len(TEXT) - prompt)
    return reference_logits(
        model(), TEXT, policy, passes=passes, loops=R, prompt=prompt, start="keyed", seed=3
    )


def partitions_agree() -> None:
    """Any partition into passes of at most W + 1 tokens gives the reference's logits."""
    for window, parts in (
        (0, [1] * 13),
        (1, [2, 2, 1, 2, 2, 2, 1, 1]),
        (2, [3, 3, 1, 3, 3]),
        (4, [1, 5, 2, 5]),
        (4, [5, 5, 3]),
        (12, [13]),
    ):
        (found,) = cached_logits(model(), [TEXT], ripe(window), [parts], loops=R)
        close(found, literal(ripe(window)))


def prompts_agree() -> None:
    """A full_prompt pass reads its own planes, and what follows reads as the reference does."""
    for window in (0, 2, 5):
        rest = [min(window + 1, 2)] * (7 // min(window + 1, 2)) + [1] * (7 % min(window + 1, 2))
        (found,) = cached_logits(model(), [TEXT], ripe(window), [rest], loops=R, prompts=[6])
        close(found, literal(ripe(window), prompt=6))


def ragged_rows_agree() -> None:
    """Rows of several lengths, cut in several ways, equal the rows alone."""
    texts = [TEXT, TEXT[3:10], TEXT[6:8]]
    cuts = [[3, 2, 3, 1, 3, 1], [1, 3, 1, 2], [2]]
    for policy in (full(), ripe(2), ripe(5)):
        together = cached_logits(model(), texts, policy, cuts, loops=R)
        for text, logits in zip(texts, together, strict=True):
            (alone,) = cached_logits(model(), [text], policy, [[1] * len(text)], loops=R)
            close(logits, alone)


def greedy(
    policy: Policy, decode: Decode, prefill: str, prompts: list[list[int]] | None = None
) -> list[tuple[int, ...]]:
    found = generate(
        model(),
        prompts or PROMPTS,
        policy=policy,
        prefill=prefill,
        decode=decode,
        loops=R,
        max_tokens=12,
        start="keyed",
        seed=3,
    )
    return [row.tokens for row in found.rows]


def speculation_keeps_tokens() -> None:
    """Drafts change the speed only: for W >= gamma, and for W < gamma by sub-passes."""
    for policy in (full(), deepest(), ripe(2), ripe(4)):
        for prefill in (EXACT, FULL_PROMPT):
            plain = greedy(policy, Sequential(), prefill)
            for mode in (Speculative(1, 4), Speculative(2, 4, "policy"), Speculative(3, 2)):
                assert greedy(policy, mode, prefill) == plain, (policy.label, prefill, mode)


def reuse_keeps_tokens() -> None:
    """Verification that goes on from the drafts' states is the same verification."""
    for policy in (full(), ripe(4), ripe(9)):
        plain = greedy(policy, Sequential(), FULL_PROMPT)
        for loops in (1, 3):
            mode = Speculative(loops, 4, "policy", reuse=True)
            assert greedy(policy, mode, FULL_PROMPT) == plain, (policy.label, loops)


def rows_do_not_mix() -> None:
    """A batch decodes what its rows decode alone."""
    for policy in (full(), ripe(4)):
        for mode in (Sequential(), Speculative(1, 4), Speculative(2, 4, "policy", reuse=True)):
            together = greedy(policy, mode, EXACT)
            alone = [greedy(policy, mode, EXACT, [prompt])[0] for prompt in PROMPTS]
            assert together == alone, (policy.label, mode)


def every_rejection_keeps_tokens() -> None:
    """Drafts right up to a place, another in each row, then wrong: nothing of them may stay."""
    for policy in (full(), deepest(), ripe(2), ripe(4)):
        plain = greedy(policy, Sequential(), FULL_PROMPT)
        for right in range(5):
            with forged_drafts(plain, right):
                found = greedy(policy, Speculative(1, 4, "policy"), FULL_PROMPT)
            assert found == plain, (policy.label, right)


class forged_drafts:
    """Within it, row i drafts the plain tokens up to place (right + i) mod 5, then wrong ones."""

    def __init__(self, plain: list[tuple[int, ...]], right: int) -> None:
        self._plain = plain
        self._right = right
        self._draft: Callable[..., list[int]] = Engine.draft

    def __enter__(self) -> None:
        plain, right, draft = self._plain, self._right, self._draft
        vocab = CONFIGS["huginn_0125"].vocab

        def forged(
            engine: Engine, tokens: list[int], loops: int, *, deepest: bool, ahead: int
        ) -> list[int]:
            draft(engine, tokens, loops, deepest=deepest, ahead=ahead)
            out = []
            for row, length in enumerate(engine.cache.lengths):
                place = length - len(PROMPTS[row]) + ahead + 1
                token = plain[row][place] if place < len(plain[row]) else 0
                out.append(token if ahead < (right + row) % 5 else (token + 1) % vocab)
            return out

        Engine.draft = forged  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        Engine.draft = self._draft  # type: ignore[method-assign]


def decoding_equals_the_reference() -> None:
    """Sequential and speculative tokens equal the reference's, which recomputes everything."""
    for policy in (full(), ripe(2)):
        expected = reference_greedy(
            model(), PROMPTS[0], policy, count=6, loops=R, start="keyed", seed=3
        )
        for mode in (Sequential(), Speculative(2, 3, "policy")):
            assert list(greedy(policy, mode, EXACT, PROMPTS[:1])[0][:6]) == expected


def iterated_replay_equals_exact_prefill() -> None:
    """Passes that feed on the last one's plane R reach what exact passes compute."""
    ids = torch.tensor([TEXT])
    for window in (1, 2):
        rounds = -(-len(TEXT) // (window + 1)) - 1
        found = policy_logits(
            model(), ids, policy=ripe(window), mode="iterated", iterations=rounds, loops=R,
            start="keyed", seed=3,
        )  # fmt: skip
        size = window + 1
        parts = [min(size, len(TEXT) - b) for b in range(0, len(TEXT), size)]
        (exact,) = cached_logits(model(), [TEXT], ripe(window), [parts], loops=R)
        close(found[0], exact)


CHECKS = (
    partitions_agree,
    prompts_agree,
    ragged_rows_agree,
    speculation_keeps_tokens,
    reuse_keeps_tokens,
    rows_do_not_mix,
    every_rejection_keeps_tokens,
    decoding_equals_the_reference,
    iterated_replay_equals_exact_prefill,
)
