"""Rows of different lengths in one pass: positions and masks from a padding mask."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.looped.block import Attend, scaled_attention
from harness.looped.errors import LoopedError


class PaddedPass:
    """One pass over padded rows, nothing before it: each token sees the real ones up to itself.

    mask [B, T], bool or integer, true where a token is real; padding may stand on either side.
    `positions` [B, T] count the real tokens of each row from 0. Padding sees itself only.
    """

    def __init__(self, mask: Tensor, ids: Tensor, dtype: torch.dtype) -> None:
        if mask.shape != ids.shape or mask.dtype.is_floating_point:
            raise LoopedError(
                f"mask: found {tuple(mask.shape)} of {mask.dtype}, expected "
                f"{tuple(ids.shape)} of booleans or integers"
            )
        real = mask.to(device=ids.device, dtype=torch.bool)
        if not real.any(1).all():
            raise LoopedError("mask: found a row of padding only, expected a real token in each")
        self.positions = (real.long().cumsum(1) - 1).clamp(min=0)
        length = ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        itself = torch.eye(length, dtype=torch.bool, device=ids.device)
        seen = causal & (real.unsqueeze(1) | itself)
        additive = torch.zeros(seen.shape, dtype=dtype, device=ids.device)
        self._mask = additive.masked_fill_(~seen, float("-inf")).unsqueeze(1)

    def attend(self, kind: str, layer: int, loop: int) -> Attend:  # noqa: ARG002
        """The same masked attention for every layer."""

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return scaled_attention(q, k, v, self._mask)

        return call
