"""Weighted next-token loss on text that the training never saw."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.model import LoopedLM
from harness.looped.start import ZERO


@torch.inference_mode()
def held_out_loss(
    model: LoopedLM,
    ids: Tensor,
    weights: Tensor,
    loops: int,
    *,
    start: str = ZERO,
    seed: int = 0,
) -> float:
    """Mean loss in nats over tokens with weight; ids and weights are [B, T + 1]."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    logits = model.forward(inputs, loops=loops, start=start, seed=seed)
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    flat = weights[:, 1:].flatten()
    return float((losses * flat).sum() / flat.sum())


def padded(
    rows: list[list[int]], weights: list[list[float]], fill: int = 0
) -> tuple[Tensor, Tensor]:
    """Rows of several lengths as [B, T] tensors; the padding on the right has weight zero."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [fill] * (longest - len(row)) for row in rows])
    mass = torch.tensor([row + [0.0] * (longest - len(row)) for row in weights])
    return ids, mass
