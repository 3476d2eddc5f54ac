"""The published models' shapes, by name: sizes and plans without a checkpoint at hand.

Source: the models' config files and converters; the parameter counts that follow are tested
against the published ones. A checkpoint's own config.json always wins.
"""

from __future__ import annotations

from dataclasses import replace

from harness.looped.config import (
    HUGINN,
    OURO,
    RAVEN_LLAMA,
    RAVEN_OLMO,
    LoopedConfig,
    RopeScaling,
)

# The converted models keep Huginn's init values and only change the embedding scale.
_STD = 0.008703882797784892
_HUGINN = LoopedConfig(
    layout=HUGINN,
    n_embd=5280,
    n_heads=55,
    n_kv_heads=55,
    head_dim=96,
    intermediate=17_920,
    prelude=2,
    core=4,
    coda=2,
    loops=32,
    vocab=65_536,
    block_size=4096,
    norm_eps=1e-6,
    rope_base=50_000.0,
    embed_scale=72.6636083983398,
    state_std=_STD * 72.6636083983398,
    tied=True,
    qk_bias=True,
    init_std=_STD,
    init_out_std=5.3569e-4,
)
_LLAMA = replace(
    _HUGINN,
    layout=RAVEN_LLAMA,
    n_embd=2048,
    n_heads=32,
    n_kv_heads=8,
    head_dim=64,
    intermediate=8192,
    prelude=4,
    core=6,
    coda=4,
    vocab=128_256,
    norm_eps=1e-5,
    rope_base=500_000.0,
    embed_scale=1.0,
    state_std=_STD,
    tied=False,
    qk_bias=False,
    rope_scaling=RopeScaling(32.0, 1.0, 4.0, 8192),
)
_OURO = replace(
    _LLAMA,
    layout=OURO,
    n_heads=16,
    n_kv_heads=16,
    head_dim=128,
    intermediate=5632,
    prelude=0,
    core=24,
    coda=0,
    loops=4,
    vocab=49_152,
    block_size=65_536,
    norm_eps=1e-6,
    rope_base=1_000_000.0,
    state_std=0.0,
    init_std=0.02,
    init_out_std=0.02,
    rope_scaling=None,
)

PUBLISHED = {
    "huginn_0125": _HUGINN,
    "raven_llama_1b": _LLAMA,
    "raven_llama_2_4_2": replace(_LLAMA, prelude=2, core=4, coda=2),
    "raven_tinyllama": replace(
        _LLAMA,
        n_kv_heads=4,
        intermediate=5632,
        core=8,
        vocab=32_000,
        rope_base=10_000.0,
        rope_scaling=None,
    ),
    "raven_olmo": replace(
        _LLAMA,
        layout=RAVEN_OLMO,
        n_heads=16,
        n_kv_heads=16,
        head_dim=128,
        vocab=100_352,
        norm_eps=1e-6,
        rope_scaling=None,
    ),
    "ouro_1_4b": _OURO,
    "ouro_2_6b": replace(_OURO, core=48),
}
