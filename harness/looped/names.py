"""Tensor names: ours, which are Huginn's, and where each published tensor goes."""

from __future__ import annotations

from dataclasses import dataclass

from harness.looped.config import OURO, LoopedConfig

EMBEDDING = "transformer.wte.weight"
ADAPTER = "transformer.adapter.weight"
FINAL_NORM = "transformer.ln_f.weight"
HEAD = "lm_head.weight"
GATE = "early_exit_gate.weight"
GATE_BIAS = "early_exit_gate.bias"
ROPE_TABLE = "freqs_cis"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A published tensor of a shape: one of ours, or the rows of it that begin at `row`."""

    name: str
    shape: Shape
    row: int | None = None


def expected_shapes(config: LoopedConfig) -> dict[str, Shape]:
    """Every tensor that a model of this config has, by our name; shapes are [out, in]."""
    n = config.n_embd
    shapes: dict[str, Shape] = {EMBEDDING: (config.vocab, n)}
    if config.injects:
        shapes[ADAPTER] = (n, 2 * n)
    shapes[FINAL_NORM] = (n,)
    if not config.tied:
        shapes[HEAD] = (config.vocab, n)
    if config.layout == OURO:
        shapes |= {GATE: (1, n), GATE_BIAS: (1,)}
    counts = {"prelude": config.prelude, "core_block": config.core, "coda": config.coda}
    for group, count in counts.items():
        for index in range(count):
            shapes |= _block_shapes(config, f"transformer.{group}.{index}")
    return shapes


def published_parts(config: LoopedConfig) -> dict[str, Part]:
    """Every tensor that a published checkpoint of this config holds, and where it goes."""
    shapes = expected_shapes(config)
    if config.layout != OURO:
        parts = {name: Part(name, shape) for name, shape in shapes.items()}
    else:
        parts = {
            "model.embed_tokens.weight": Part(EMBEDDING, shapes[EMBEDDING]),
            "model.norm.weight": Part(FINAL_NORM, shapes[FINAL_NORM]),
            f"model.{GATE}": Part(GATE, shapes[GATE]),
            f"model.{GATE_BIAS}": Part(GATE_BIAS, shapes[GATE_BIAS]),
        }
        if not config.tied:
            parts[HEAD] = Part(HEAD, shapes[HEAD])
        for index in range(config.core):
            parts |= _ouro_layer(config, index, shapes)
    return parts


def _block_shapes(config: LoopedConfig, prefix: str) -> dict[str, Shape]:
    n, h = config.n_embd, config.head_dim
    q, kv = config.n_heads * h, config.n_kv_heads * h
    shapes: dict[str, Shape] = {
        f"{prefix}.norm_{number}.weight": (n,) for number in range(1, config.norms + 1)
    }
    shapes[f"{prefix}.attn.Wqkv.weight"] = (q + 2 * kv, n)
    if config.qk_bias:
        shapes[f"{prefix}.attn.qk_bias"] = (2, 1, config.n_heads, h)
    if config.qk_norm:
        shapes |= {f"{prefix}.attn.q_norm.weight": (q,), f"{prefix}.attn.k_norm.weight": (kv,)}
    shapes[f"{prefix}.attn.proj.weight"] = (n, q)
    shapes[f"{prefix}.mlp.fc.weight"] = (2 * config.intermediate, n)
    shapes[f"{prefix}.mlp.proj.weight"] = (n, config.intermediate)
    return shapes


_OURO_NORMS = (
    "input_layernorm",
    "input_layernorm_2",
    "post_attention_layernorm",
    "post_attention_layernorm_2",
)


def _ouro_layer(config: LoopedConfig, index: int, shapes: dict[str, Shape]) -> dict[str, Part]:
    """Query, key and value rows are stacked in one matrix of ours, gate and up rows in another."""
    theirs, ours = f"model.layers.{index}", f"transformer.core_block.{index}"
    n, inner = config.n_embd, config.intermediate
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    parts = {
        f"{theirs}.{name}.weight": Part(f"{ours}.norm_{number}.weight", (n,))
        for number, name in enumerate(_OURO_NORMS, 1)
    }
    fused, fc = f"{ours}.attn.Wqkv.weight", f"{ours}.mlp.fc.weight"
    attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
    out, down = f"{ours}.attn.proj.weight", f"{ours}.mlp.proj.weight"
    return parts | {
        f"{attention}.q_proj.weight": Part(fused, (q, n), 0),
        f"{attention}.k_proj.weight": Part(fused, (kv, n), q),
        f"{attention}.v_proj.weight": Part(fused, (kv, n), q + kv),
        f"{attention}.o_proj.weight": Part(out, shapes[out]),
        f"{mlp}.gate_proj.weight": Part(fc, (inner, n), 0),
        f"{mlp}.up_proj.weight": Part(fc, (inner, n), inner),
        f"{mlp}.down_proj.weight": Part(down, shapes[down]),
    }
