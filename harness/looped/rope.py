"""Rotary position tables for both published forms: adjacent pairs and split halves."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.looped.config import HUGINN, LoopedConfig, RopeScaling


class Rope:
    """Rotates q and k by absolute position.

    `cos` and `sin` are [positions, head_dim], already repeated for both members of a pair, and
    `sin` carries the sign of each member; so a rotation is x * cos + partner(x) * sin.
    """

    def __init__(self, config: LoopedConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        self.adjacent = config.layout == HUGINN
        self.dtype = torch.promote_types(dtype, torch.float32)
        if device.type == "meta":
            shape = (config.block_size, config.head_dim)
            self.cos = self.sin = torch.empty(shape, dtype=self.dtype, device=device)
            return
        angles = _angles(config)
        cos, sin = angles.cos(), angles.sin()
        if self.adjacent:
            cos, sin = _interleave(cos, cos), _interleave(-sin, sin)
        else:
            cos, sin = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        # Upstream builds the table in float32; float64 runs use that same table, widened.
        narrow = torch.float32
        self.cos = cos.to(narrow).to(device=device, dtype=self.dtype)
        self.sin = sin.to(narrow).to(device=device, dtype=self.dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tables for positions [B or 1, T]: two tensors [B or 1, T, 1, head_dim]."""
        return self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """x [B, T, heads, head_dim], rotated in float32 or better and cast back."""
        cos, sin = table
        wide = x if x.dtype == self.dtype else x.to(self.dtype)
        if self.adjacent:
            pairs = wide.view(*wide.shape[:-1], -1, 2)
            partner = pairs.flip(-1).view(wide.shape)
        else:
            partner = wide.roll(wide.shape[-1] // 2, -1)
        return torch.addcmul(wide * cos, partner, sin).to(x.dtype)


def upstream_table(config: LoopedConfig) -> Tensor:
    """The table that Huginn checkpoints store as `freqs_cis`: [1, positions, 1, pairs, 2]."""
    angles = _angles(config)
    return torch.stack([angles.cos(), angles.sin()], -1)[None, :, None].to(torch.float32)


def _angles(config: LoopedConfig) -> Tensor:
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    frequencies = 1.0 / (config.rope_base ** (pairs / config.head_dim))
    if config.rope_scaling is not None:
        frequencies = _llama3(frequencies, config.rope_scaling)
    return torch.outer(torch.arange(config.block_size, dtype=torch.float32), frequencies)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    lengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    ramp = (scaling.original_length / lengths - low) / (high - low)
    ramp = ramp.clamp(0, 1)
    return (1 - ramp) * frequencies / scaling.factor + ramp * frequencies


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([first, second], -1).flatten(-2)
