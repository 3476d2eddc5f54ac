"""What the engines should say: our own looped models, and an explicit Nanbeige."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, full
from harness.looped.replaying import Passes, ReplayMemory
from tests.sglang import nanbeige


@torch.inference_mode()
def log_probs(
    model: LoopedLM, prompt: list[int], answer: list[int], policy: Policy, prefill: str, loops: int
) -> Tensor:
    """Log-probs [tokens, vocab] of prompt and answer, token by token under the policy.

    With `full_prompt` the prompt is one pass at full depth, and the policy begins after it.
    """
    ids = torch.tensor([prompt + answer])
    run = Passes(model, ids, loops, start="keyed")
    memory = ReplayMemory(policy, loops)
    if prefill == "exact":
        logits = run.through(memory, policy, 0, ids.shape[1])
    else:
        whole = ReplayMemory(full(), loops)
        first = run.one(whole, 0, len(prompt))
        memory.planes = whole.planes
        rest = run.through(memory, policy, len(prompt), ids.shape[1]) if answer else first[:, :0]
        logits = torch.cat([first, rest], 1)
    return torch.log_softmax(logits[0], -1)


def chosen(rows: Tensor, tokens: list[int]) -> Tensor:
    """Log-probs of tokens[1:], each by the row before it."""
    ids = torch.tensor(tokens)
    return rows[torch.arange(len(ids) - 1), ids[1:]]


@torch.inference_mode()
def nanbeige_log_probs(folder: Path, tokens: list[int]) -> Tensor:
    """Log-probs [tokens, vocab] of the tiny Nanbeige: the whole stack `LOOPS` times, one norm."""
    weights = load_file(folder / "model.safetensors")
    x = weights["model.embed_tokens.weight"][torch.tensor(tokens)]
    for _ in range(nanbeige.LOOPS):
        for layer in range(nanbeige.LAYERS):
            x = _nanbeige_layer(weights, f"model.layers.{layer}", x)
    logits = _norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T
    return torch.log_softmax(logits, -1)


def _nanbeige_layer(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    y = _norm(x, weights[f"{name}.input_layernorm.weight"])
    size = nanbeige.HIDDEN // nanbeige.HEADS
    q, k, v = (
        (y @ weights[f"{name}.self_attn.{part}_proj.weight"].T).view(len(x), -1, size)
        for part in "qkv"
    )
    out = functional.scaled_dot_product_attention(
        *(part.transpose(0, 1)[None] for part in (_turn(q), _turn(k), v)),
        is_causal=True,
        enable_gqa=True,
    )
    x = x + out[0].transpose(0, 1).flatten(1) @ weights[f"{name}.self_attn.o_proj.weight"].T
    y = _norm(x, weights[f"{name}.post_attention_layernorm.weight"])
    gate = functional.silu(y @ weights[f"{name}.mlp.gate_proj.weight"].T)
    up = y @ weights[f"{name}.mlp.up_proj.weight"].T
    return x + (gate * up) @ weights[f"{name}.mlp.down_proj.weight"].T


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, 1e-6)


def _turn(x: Tensor) -> Tensor:
    """Rotate [tokens, heads, size] by position: split halves, base 10000."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(len(x)).float(), 10000.0 ** (-torch.arange(half) / half))
    cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
