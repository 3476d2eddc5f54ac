"""What a policy would have predicted on a given text, compared with the full cache.

Three semantics, never mixed silently:

- `sequential`: what token-by-token decoding under the policy computes, in passes as long as the
  policy allows. Errors compound. Exact.
- `one_pass`: far planes are read from a full-cache run, near ones live. The direct effect only.
- `iterated`: far planes are read from the previous iteration. After iteration k (one_pass is the
  first) the first (k + 1) * (W + 1) positions equal `sequential`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.block import Attend, scaled_attention
from harness.looped.errors import PolicyError
from harness.looped.model import CORE, LoopedLM
from harness.looped.policies import Policy, near_mask
from harness.looped.start import ZERO

SEQUENTIAL = "sequential"
ONE_PASS = "one_pass"  # noqa: S105
ITERATED = "iterated"

_LONGEST_PASS = 64
# (kind, loop, layer) -> keys and values [B, T, G, h]
Planes = dict[tuple[str, int, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Replay:
    """Per-position divergence from the reference, in nats, and both choices of the next token.

    kl: float64 [B, T], KL(reference || policy) from float64 log-softmax; `reference` and `chosen`:
    int64 [B, T], the greedy tokens.
    """

    kl: Tensor
    reference: Tensor
    chosen: Tensor


@torch.inference_mode()
def replay(
    model: LoopedLM,
    ids: Tensor,
    *,
    policy: Policy,
    mode: str = SEQUENTIAL,
    iterations: int = 1,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
    reference: LoopedLM | None = None,
) -> Replay:
    """Teacher-forced logits of ids [B, T] under a policy against the full cache.

    The reference is a full-cache run of `reference`, by default of the model itself. Raises
    PolicyError for an unknown mode.
    """
    count = model.loops(loops)
    judge = reference or model
    expected = judge.forward(ids, loops=count, start=start, seed=seed)
    found = policy_logits(
        model,
        ids,
        policy=policy,
        mode=mode,
        iterations=iterations,
        loops=count,
        start=start,
        seed=seed,
    )
    return Replay(divergence(expected, found), expected.argmax(-1), found.argmax(-1))


def divergence(reference: Tensor, policy: Tensor) -> Tensor:
    """KL(reference || policy) in nats of two tensors of logits [..., vocab], float64 [...]."""
    logp = functional.log_softmax(reference.double(), -1)
    logq = functional.log_softmax(policy.double(), -1)
    return (logp.exp() * (logp - logq)).sum(-1)


@torch.inference_mode()
def policy_logits(
    model: LoopedLM,
    ids: Tensor,
    *,
    policy: Policy,
    mode: str,
    loops: int,
    iterations: int = 1,
    start: str = ZERO,
    seed: int = 0,
) -> Tensor:
    """Logits [B, T, vocab] of given text under a policy, in one of the three semantics."""
    if mode not in (SEQUENTIAL, ONE_PASS, ITERATED):
        raise PolicyError(f"mode: found '{mode}', expected sequential, one_pass or iterated")
    length = ids.shape[1]
    model.check_length(length)
    policy.check(model.config)
    run = Passes(model, ids, loops, start=start, seed=seed)
    if mode == SEQUENTIAL:
        memory = ReplayMemory(policy, loops)
        return run.through(memory, policy, 0, length)
    # Iteration 0 is the full cache: it only records.
    memory = ReplayMemory(None, loops)
    logits = run.one(memory, 0, length)
    for _ in range(1 if mode == ONE_PASS else iterations):
        memory = ReplayMemory(policy, loops, far=memory.planes)
        logits = run.one(memory, 0, length)
    return logits


class Passes:
    """Runs passes over parts of a given text ids [B, T], all from the same start states."""

    def __init__(
        self, model: LoopedLM, ids: Tensor, loops: int, *, start: str = ZERO, seed: int = 0
    ) -> None:
        self.model = model
        self.ids = ids
        self.loops = loops
        self._positions = torch.arange(ids.shape[1], device=model.device).unsqueeze(0)
        self._state = model.start(start, seed, self._positions)

    def one(self, memory: ReplayMemory, begin: int, end: int) -> Tensor:
        """Logits [B, end - begin, vocab] of one pass; the memory then ends at `end`."""
        place = self._positions[:, begin:end]
        state = self._state[:, begin:end]
        memory.begin = begin
        logits = self.model.run(self.ids[:, begin:end], place, self.loops, state, memory)
        memory.begin = end
        return logits

    def through(self, memory: ReplayMemory, policy: Policy, begin: int, end: int) -> Tensor:
        """Logits of positions begin..end - 1, in passes as long as the policy allows."""
        longest = min(policy.longest_pass or _LONGEST_PASS, _LONGEST_PASS)
        places = range(begin, end, longest)
        return torch.cat([self.one(memory, p, min(p + longest, end)) for p in places], 1)


class ReplayMemory:
    """Keeps every plane of the text so far; far keys may come from another run's planes."""

    def __init__(self, policy: Policy | None, loops: int, far: Planes | None = None) -> None:
        self.planes: Planes = {}
        self.begin = 0
        self._policy = policy
        self._loops = loops
        self._far = far

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            near = self._append((kind, loop, layer), k, v)
            policy = self._policy
            if policy is None or policy.near_window is None or kind != CORE:
                return scaled_attention(q, *near, _lower_right(q, near[0]))
            plane = policy.far_plane(loop, self._loops)
            if plane == loop:
                return scaled_attention(q, *near, _lower_right(q, near[0]))
            source = self.planes if self._far is None or plane < loop else self._far
            return _two_parts(q, near, source.get((CORE, plane, layer)), self.begin, policy)

        return call

    def _append(self, key: tuple[str, int, int], k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.begin:
            old_k, old_v = self.planes[key]
            k, v = torch.cat([old_k, k], 1), torch.cat([old_v, v], 1)
        self.planes[key] = (k, v)
        return k, v


def _lower_right(q: Tensor, keys: Tensor) -> Tensor | None:
    length, total = q.shape[1], keys.shape[1]
    if length == 1:
        return None
    return _additive(torch.ones(length, total, dtype=torch.bool).tril(total - length), q)


def _two_parts(
    q: Tensor,
    near: tuple[Tensor, Tensor],
    far: tuple[Tensor, Tensor] | None,
    begin: int,
    policy: Policy,
) -> Tensor:
    """Attention over the own plane of near positions and another plane of the others."""
    end = near[0].shape[1]
    queries, keys = torch.arange(begin, end), torch.arange(end)
    causal = queries.unsqueeze(1) >= keys
    close = near_mask(policy, queries, keys)
    if close.shape[0] > 1:
        close = close.repeat_interleave(q.shape[2] // near[0].shape[2], 0)
    seen, distant = causal & close, causal & ~close
    if far is None or not distant.any():
        return scaled_attention(q, *near, _additive(seen, q))
    columns = min(end, far[0].shape[1])
    k, v = (torch.cat([n, f[:, :columns]], 1) for n, f in zip(near, far, strict=True))
    mask = torch.cat([seen, distant[..., :columns]], -1)
    return scaled_attention(q, k, v, _additive(mask, q))


def _additive(seen: Tensor, like: Tensor) -> Tensor:
    mask = torch.zeros(seen.shape, dtype=like.dtype)
    mask = mask.masked_fill_(~seen, float("-inf")).to(like.device)
    return mask[None] if mask.dim() == 3 else mask[None, None]
