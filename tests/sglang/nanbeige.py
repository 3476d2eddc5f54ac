"""A tiny checkpoint with random weights that SGLang runs as its own looped model, Nanbeige."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

import harness

LAYERS, HIDDEN, HEADS, KV_HEADS, MLP, VOCAB, LOOPS = 2, 64, 4, 2, 128, 704, 3
TOKENIZER = Path(harness.__file__).parent / "models" / "tiny_ripe" / "tokenizer.json"


def make_nanbeige(folder: Path, std: float = 0.2) -> Path:
    """Write the checkpoint with the embedded model's tokenizer; returns its folder."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["NanbeigeForCausalLM"],
        "model_type": "nanbeige",
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "vocab_size": VOCAB,
        "num_loops": LOOPS,
        "skip_loop_final_norm": True,
        "bos_token_id": 1,
        "eos_token_id": 256,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save_file(_weights(std), folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    return folder


def _weights(std: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * std

    head = HIDDEN // HEADS
    weights = {
        "model.embed_tokens.weight": random(VOCAB, HIDDEN),
        "lm_head.weight": random(VOCAB, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        weights |= {
            f"{name}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.self_attn.q_proj.weight": random(HEADS * head, HIDDEN),
            f"{name}.self_attn.k_proj.weight": random(KV_HEADS * head, HIDDEN),
            f"{name}.self_attn.v_proj.weight": random(KV_HEADS * head, HIDDEN),
            f"{name}.self_attn.o_proj.weight": random(HIDDEN, HEADS * head),
            f"{name}.mlp.gate_proj.weight": random(MLP, HIDDEN),
            f"{name}.mlp.up_proj.weight": random(MLP, HIDDEN),
            f"{name}.mlp.down_proj.weight": random(HIDDEN, MLP),
        }
    return weights
