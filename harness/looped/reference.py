"""The slow and literal meaning of a cache policy, to check the fast caches against.

Every plane of every position is kept, and each query gathers its keys one by one as the policy's
pure function says. One row, no batching, no shortcuts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.looped.block import Attend
from harness.looped.errors import PolicyError
from harness.looped.model import CORE, LoopedLM
from harness.looped.policies import Policy
from harness.looped.start import ZERO

Pair = tuple[Tensor, Tensor]


class LiteralMemory:
    """All keys and values ever computed: a pair [G, h] per kind, layer, plane and position."""

    def __init__(self, policy: Policy, loops: int, prompt: int) -> None:
        self._policy = policy
        self._loops = loops
        self._prompt = prompt
        self._pairs: dict[tuple[str, int, int, int], Pair] = {}
        self.begin = 0

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer over the positions from `begin` on."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            for i in range(k.shape[1]):
                self._pairs[kind, layer, loop, self.begin + i] = (k[0, i], v[0, i])
            queries = [
                self._one(q[0, i], kind, layer, loop, self.begin + i) for i in range(q.shape[1])
            ]
            return torch.stack(queries).unsqueeze(0)

        return call

    def _one(self, q: Tensor, kind: str, layer: int, loop: int, query: int) -> Tensor:
        groups = self._pairs[kind, layer, loop, query][0].shape[0]
        share = q.shape[0] // groups
        outputs = []
        for group in range(groups):
            pairs = [self._pair(kind, layer, loop, query, key, group) for key in range(query + 1)]
            keys = torch.stack([k[group] for k, _ in pairs])
            values = torch.stack([v[group] for _, v in pairs])
            scores = q[group * share : (group + 1) * share] @ keys.T * q.shape[-1] ** -0.5
            outputs.append(torch.softmax(scores, -1) @ values)
        return torch.cat(outputs)

    def _pair(self, kind: str, layer: int, loop: int, query: int, key: int, group: int) -> Pair:
        plane = loop
        if kind == CORE:
            plane = self._policy.plane(
                query=query,
                loop=loop,
                key=key,
                loops=self._loops,
                prompt=self._prompt,
                head=group,
            )
        if key >= self.begin and plane > loop:
            raise PolicyError(
                f"pass: query {query} reads plane {plane} of position {key} in loop {loop}, where "
                "it does not exist yet; expected a shorter pass"
            )
        return self._pairs[kind, layer, plane, key]


@torch.inference_mode()
def reference_logits(
    model: LoopedLM,
    ids: Sequence[int],
    policy: Policy,
    *,
    passes: Sequence[int],
    loops: int,
    prompt: int = 0,
    start: str = ZERO,
    seed: int = 0,
) -> Tensor:
    """Logits [N, vocab] of one row, computed in passes of the given lengths.

    Raises PolicyError when a pass would read a plane before it exists, or when the lengths don't
    add up to the row.
    """
    policy.check(model.config)
    if sum(passes) != len(ids):
        raise PolicyError(f"passes: found a sum of {sum(passes)}, expected {len(ids)} tokens")
    memory = LiteralMemory(policy, loops, prompt)
    parts = []
    for length in passes:
        begin = memory.begin
        positions = torch.arange(begin, begin + length, device=model.device).unsqueeze(0)
        tokens = torch.tensor([list(ids[begin : begin + length])], device=model.device)
        state = model.start(start, seed, positions)
        parts.append(model.run(tokens, positions, loops, state, memory)[0])
        memory.begin += length
    return torch.cat(parts)


def reference_greedy(
    model: LoopedLM,
    prompt: Sequence[int],
    policy: Policy,
    *,
    count: int,
    loops: int,
    full_prompt: bool = False,
    start: str = ZERO,
    seed: int = 0,
) -> list[int]:
    """`count` greedy tokens after a prompt, recomputing everything for each of them."""
    known = len(prompt) if full_prompt else 0
    first = [len(prompt)] if full_prompt else [1] * len(prompt)
    ids = list(prompt)
    for new in range(count):
        logits = reference_logits(
            model,
            ids,
            policy,
            passes=first + [1] * new,
            loops=loops,
            prompt=known,
            start=start,
            seed=seed,
        )
        ids.append(int(logits[-1].argmax()))
    return ids[len(prompt) :]
