"""Small random models of every layout, made on the spot."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.looped.config import HUGINN, OURO, RAVEN_LLAMA, RAVEN_OLMO, LoopedConfig
from harness.looped.model import LoopedLM
from harness.looped.names import expected_shapes
from harness.looped.published import PUBLISHED

SMALL = {
    "n_embd": 24,
    "n_heads": 4,
    "n_kv_heads": 4,
    "head_dim": 6,
    "intermediate": 32,
    "vocab": 31,
    "block_size": 64,
    "loops": 4,
}
CONFIGS = {
    name: replace(config, **SMALL)
    for name, config in {**PUBLISHED, "ouro_1_4b": replace(PUBLISHED["ouro_1_4b"], core=3)}.items()
    if name != "ouro_2_6b"
}
CONFIGS["raven_llama_1b"] = replace(CONFIGS["raven_llama_1b"], n_kv_heads=2)
CONFIGS["raven_tinyllama"] = replace(CONFIGS["raven_tinyllama"], n_kv_heads=1)
LAYOUTS = (HUGINN, RAVEN_LLAMA, RAVEN_OLMO, OURO)


def random_tensors(config: LoopedConfig, seed: int = 0) -> dict[str, Tensor]:
    """float64 weights that keep states of order one, gains away from one, biases not zero."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected_shapes(config).items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        if "norm" in name or name.endswith("ln_f.weight"):
            tensors[name] = 1 + 0.2 * noise
        elif len(shape) == 2:
            tensors[name] = noise * shape[1] ** -0.5
        else:
            tensors[name] = 0.3 * noise
    return tensors


def random_model(
    config: LoopedConfig, seed: int = 0, dtype: torch.dtype = torch.float64
) -> LoopedLM:
    """A model with `random_tensors`."""
    return LoopedLM(config, {name: t.to(dtype) for name, t in random_tensors(config, seed).items()})
