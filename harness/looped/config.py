"""The shape of a looped language model, as its config.json has it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.looped.errors import ConfigError

HUGINN = "huginn"
RAVEN_LLAMA = "raven_llama"


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """The llama3 rule: slow frequencies divided by `factor`, fast ones kept, a ramp between."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int


@dataclass(frozen=True, slots=True)
class LoopedConfig:
    """Every number of a model; `layout` names the block and the RoPE form.

    `state_std` is the effective standard deviation of a random start state, embedding scale
    included.
    """

    layout: str
    n_embd: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate: int
    prelude: int
    core: int
    coda: int
    loops: int
    vocab: int
    block_size: int
    norm_eps: float
    rope_base: float
    embed_scale: float
    state_std: float
    tied: bool
    qk_bias: bool
    init_std: float
    init_out_std: float
    rope_scaling: RopeScaling | None = None

    @property
    def physical_layers(self) -> int:
        """Layers with weights of their own."""
        return self.prelude + self.core + self.coda

    @property
    def sandwich(self) -> bool:
        """Four norms a block, and the final norm before the coda as well."""
        return self.layout == HUGINN

    def with_loops(self, loops: int) -> LoopedConfig:
        """The same model with another default number of loops."""
        return replace(self, loops=loops)


def read_config(path: Path) -> LoopedConfig:
    """The model described by a config.json.

    Head counts, head size and init values are read, never recomputed. Raises ConfigError naming
    the file and the key.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable config: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: found a {type(raw).__name__}, expected an object")
    return _Reader(path, raw).config()


class _Reader:
    def __init__(self, path: Path, raw: dict[str, Any]) -> None:
        self._path = path
        self._raw = raw

    def config(self) -> LoopedConfig:
        self._expect("model_type", "huginn_raven")
        self._expect("injection_type", "linear")
        self._expect("bias", False)
        init = self._section("init_values")
        layout = HUGINN if self._get("qk_bias", bool) else RAVEN_LLAMA
        scale = float(init["embed_scale"])
        # The converted checkpoints draw their state without the embedding scale.
        state_std = float(init["std"]) * (scale if layout == HUGINN else 1.0)
        config = LoopedConfig(
            layout=layout,
            n_embd=self._get("n_embd", int),
            n_heads=self._get("n_heads", int),
            n_kv_heads=self._get("num_key_value_heads", int),
            head_dim=self._get("head_dim", int),
            intermediate=self._get("intermediate_size", int),
            prelude=self._get("n_layers_in_prelude", int),
            core=self._get("n_layers_in_recurrent_block", int),
            coda=self._get("n_layers_in_coda", int),
            loops=self._get("mean_recurrence", int),
            vocab=self._get("padded_vocab_size", int),
            block_size=self._get("block_size", int),
            norm_eps=float(self._get("norm_eps", (int, float))),
            rope_base=float(self._get("rope_base", (int, float))),
            embed_scale=scale,
            state_std=state_std,
            tied=self._get("tie_embeddings", bool),
            qk_bias=layout == HUGINN,
            init_std=float(init["std"]),
            init_out_std=float(init["out_proj"]),
            rope_scaling=self._rope_scaling(),
        )
        self._check(config)
        return config

    def _check(self, config: LoopedConfig) -> None:
        if config.n_heads % config.n_kv_heads:
            self._fail("num_key_value_heads", config.n_kv_heads, f"a divisor of {config.n_heads}")
        if config.head_dim % 2:
            self._fail("head_dim", config.head_dim, "an even number")
        counts = (config.n_embd, config.prelude, config.core, config.coda, config.loops)
        if min(counts) < 1:
            self._fail("n_embd, layers, mean_recurrence", counts, "positive numbers")

    def _rope_scaling(self) -> RopeScaling | None:
        raw = self._raw.get("rope_scaling")
        if raw is None:
            return None
        if raw.get("rope_type") != "llama3":
            self._fail("rope_scaling.rope_type", raw.get("rope_type"), "'llama3'")
        return RopeScaling(
            float(raw["factor"]),
            float(raw["low_freq_factor"]),
            float(raw["high_freq_factor"]),
            int(raw["original_max_position_embeddings"]),
        )

    def _section(self, key: str) -> dict[str, Any]:
        section: dict[str, Any] = self._get(key, dict)
        for name in ("embed_scale", "std", "out_proj"):
            if not isinstance(section.get(name), (int, float)):
                self._fail(f"{key}.{name}", section.get(name), "a number")
        return section

    def _get(self, key: str, kind: type | tuple[type, ...]) -> Any:
        value = self._raw.get(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = [k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,))]
            self._fail(key, value, f"of type {' or '.join(names)}")
        return value

    def _expect(self, key: str, value: object) -> None:
        if self._raw.get(key, value) != value:
            self._fail(key, self._raw[key], repr(value))

    def _fail(self, key: str, found: object, expected: str) -> None:
        raise ConfigError(f"{self._path}: {key}: found {found!r}, expected {expected}")


def config_json(config: LoopedConfig) -> dict[str, Any]:
    """The config.json of a Huginn-layout model, with the published key names."""
    if config.layout != HUGINN:
        raise ConfigError(f"layout: found '{config.layout}', expected '{HUGINN}' for writing")
    return {
        "model_type": "huginn_raven",
        "architectures": ["RavenForCausalLM"],
        "bias": False,
        "block_class_name": "SandwichBlock",
        "block_size": config.block_size,
        "head_dim": config.head_dim,
        "init_values": {
            "embed_scale": config.embed_scale,
            "embedding": config.init_std,
            "out_proj": config.init_out_std,
            "std": config.init_std,
        },
        "injection_type": "linear",
        "intermediate_size": config.intermediate,
        "mean_recurrence": config.loops,
        "n_embd": config.n_embd,
        "n_heads": config.n_heads,
        "n_layers": config.physical_layers,
        "n_layers_in_coda": config.coda,
        "n_layers_in_prelude": config.prelude,
        "n_layers_in_recurrent_block": config.core,
        "norm_eps": config.norm_eps,
        "num_key_value_heads": config.n_kv_heads,
        "padded_vocab_size": config.vocab,
        "qk_bias": config.qk_bias,
        "rope_base": config.rope_base,
        "state_init": "like-init",
        "tie_embeddings": config.tied,
        "vocab_size": config.vocab,
    }
