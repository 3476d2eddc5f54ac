"""The caches driven as a user would: ragged rows, any partition, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.looped.cache import PlaneCache
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy


def cached_logits(
    model: LoopedLM,
    rows: Sequence[Sequence[int]],
    policy: Policy,
    partitions: Sequence[Sequence[int]],
    *,
    loops: int,
    prompts: Sequence[int] | None = None,
    start: str = "keyed",
    seed: int = 3,
) -> list[Tensor]:
    """Logits [N_i, vocab] of each row, read in passes of partitions[i].

    With `prompts`, the first prompts[i] tokens come in one full_prompt pass, and the partition
    covers the rest. Passes are rectangular; what a row lacks is padding that is not committed.
    """
    passes = max(map(len, partitions))
    capacity = max(map(len, rows)) + max((max(p) for p in partitions if p), default=1)
    longest = max((max(p) for p in partitions if p), default=1)
    cache = PlaneCache(
        model, policy, rows=len(rows), capacity=capacity, loops=loops, longest_pass=longest
    )
    found: list[list[Tensor]] = [[] for _ in rows]
    begins = [0] * len(rows)

    def take(counts: Sequence[int], *, whole: bool) -> None:
        parts = [list(r[b : b + c]) for r, b, c in zip(rows, begins, counts, strict=True)]
        ids = torch.tensor([part + [0] * (max(counts) - len(part)) for part in parts])
        opened = cache.open_prompt(list(counts)) if whole else cache.open(max(counts), loops)
        positions, memory = opened
        state = model.start(start, seed, positions)
        logits = model.run(ids, positions, loops, state, memory)
        cache.commit(list(counts))
        for i, count in enumerate(counts):
            found[i].append(logits[i, :count])
            begins[i] += count

    with torch.inference_mode():
        if prompts is not None:
            take(prompts, whole=True)
        for step in range(passes):
            take([p[step] if step < len(p) else 0 for p in partitions], whole=False)
    assert cache.counted_bytes() == cache.formula_bytes()
    return [torch.cat(parts) for parts in found]
