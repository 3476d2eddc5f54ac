"""One transformer block of a looped model, as a function of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.config import OURO, RAVEN_OLMO, LoopedConfig
from harness.looped.rope import Rope

# q [B, T, H, h], k and v [B, T, G, h] -> [B, T, H, h]; keys come rotated.
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Block:
    """The tensors of one block; some layouts lack norms 3 and 4, the bias, or q and k norms."""

    norm_1: Tensor
    norm_2: Tensor
    norm_3: Tensor | None
    norm_4: Tensor | None
    qkv: Tensor
    qk_bias: Tensor | None
    proj: Tensor
    fc: Tensor
    down: Tensor
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None


def block_from(tensors: Mapping[str, Tensor], prefix: str, config: LoopedConfig) -> Block:
    """The block whose tensor names start with `prefix`."""
    four = config.norms == 4
    bias = None
    if config.qk_bias:
        bias = tensors[f"{prefix}.attn.qk_bias"].reshape(2 * config.n_heads, config.head_dim)
    return Block(
        norm_1=tensors[f"{prefix}.norm_1.weight"],
        norm_2=tensors[f"{prefix}.norm_2.weight"],
        norm_3=tensors[f"{prefix}.norm_3.weight"] if four else None,
        norm_4=tensors[f"{prefix}.norm_4.weight"] if four else None,
        qkv=tensors[f"{prefix}.attn.Wqkv.weight"],
        qk_bias=bias,
        proj=tensors[f"{prefix}.attn.proj.weight"],
        fc=tensors[f"{prefix}.mlp.fc.weight"],
        down=tensors[f"{prefix}.mlp.proj.weight"],
        q_norm=tensors[f"{prefix}.attn.q_norm.weight"] if config.qk_norm else None,
        k_norm=tensors[f"{prefix}.attn.k_norm.weight"] if config.qk_norm else None,
    )


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm with a gain, computed in float32 or better."""
    return functional.rms_norm(x, weight.shape, weight, eps)


def run_block(
    block: Block,
    config: LoopedConfig,
    rope: Rope,
    x: Tensor,
    table: tuple[Tensor, Tensor],
    attend: Attend,
) -> Tensor:
    """x [B, T, n] through attention and MLP, with the norms where the layout has them.

    Source: the models' public modeling files. Huginn norms the stream itself, Ouro what each half
    adds on both sides, the converted OLMo what it adds, the converted Llama what it reads.
    """
    eps = config.norm_eps
    if config.layout == RAVEN_OLMO:
        x = x + norm(_attention(block, config, rope, x, table, attend), block.norm_1, eps)
        return x + norm(_mlp(block, x), block.norm_2, eps)
    if block.norm_3 is None or block.norm_4 is None:
        x = x + _attention(block, config, rope, norm(x, block.norm_1, eps), table, attend)
        return x + _mlp(block, norm(x, block.norm_2, eps))
    y = _attention(block, config, rope, norm(x, block.norm_1, eps), table, attend)
    if config.layout == OURO:
        x = x + norm(y, block.norm_2, eps)
        return x + norm(_mlp(block, norm(x, block.norm_3, eps)), block.norm_4, eps)
    x = norm(y + x, block.norm_2, eps)
    y = _mlp(block, norm(x, block.norm_3, eps))
    return norm(y + x, block.norm_4, eps)


def _attention(
    block: Block,
    config: LoopedConfig,
    rope: Rope,
    x: Tensor,
    table: tuple[Tensor, Tensor],
    attend: Attend,
) -> Tensor:
    rows, length, _ = x.shape
    heads, groups = config.n_heads, config.n_kv_heads
    qkv = functional.linear(x, block.qkv).view(rows, length, heads + 2 * groups, config.head_dim)
    qk = qkv[:, :, : heads + groups]
    if block.qk_bias is not None:
        qk = qk + block.qk_bias
    if block.q_norm is not None and block.k_norm is not None:
        qk = _norm_qk(qk, heads, block.q_norm, block.k_norm, config.norm_eps)
    # Queries and keys turn together: one call less for each block.
    qk = rope.turn(qk, table)
    out = attend(qk[:, :, :heads], qk[:, :, heads:], qkv[:, :, heads + groups :])
    return functional.linear(out.reshape(rows, length, -1), block.proj)


def _norm_qk(qk: Tensor, heads: int, q_norm: Tensor, k_norm: Tensor, eps: float) -> Tensor:
    """The whole query vector and the whole key vector, all heads of each, normalised."""
    q = norm(qk[:, :, :heads].flatten(-2), q_norm, eps)
    k = norm(qk[:, :, heads:].flatten(-2), k_norm, eps)
    return torch.cat([q, k], -1).view(qk.shape)


def _mlp(block: Block, x: Tensor) -> Tensor:
    gate, up = functional.linear(x, block.fc).chunk(2, -1)
    return functional.linear(functional.silu(gate) * up, block.down)


def scaled_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False
) -> Tensor:
    """Softmax attention; shapes as in `Attend`, mask additive [B or 1, 1, T, keys]."""
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=mask,
        is_causal=causal,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return out.transpose(1, 2)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of one pass over itself, nothing before it."""
    return scaled_attention(q, k, v, None, causal=True)
