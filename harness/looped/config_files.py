"""config.json files: read strictly, written with the published key names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.looped.config import (
    HUGINN,
    OURO,
    RAVEN_LLAMA,
    RAVEN_OLMO,
    LoopedConfig,
    RopeScaling,
)
from harness.looped.errors import ConfigError


def read_config(path: Path, *, qk_norm: bool = False) -> LoopedConfig:
    """The model described by a config.json.

    Head counts, head size and init values are read, never recomputed. A converted OLMo has the
    same keys as a converted Llama; only its tensors tell, so the caller says whether there are
    query and key norms. Raises ConfigError naming the file and the key.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable config: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: found a {type(raw).__name__}, expected an object")
    reader = _Reader(path, raw)
    config = reader.ouro() if raw.get("model_type") == OURO else reader.raven(qk_norm=qk_norm)
    reader.check(config)
    return config


class _Reader:
    def __init__(self, path: Path, raw: dict[str, Any]) -> None:
        self._path = path
        self._raw = raw

    def raven(self, *, qk_norm: bool) -> LoopedConfig:
        """Huginn, and the converted Llama and OLMo models, which keep its keys."""
        self._expect("model_type", "huginn_raven")
        self._expect("injection_type", "linear")
        self._expect("bias", False)
        init = self._section("init_values")
        layout = HUGINN if self._get("qk_bias", bool) else RAVEN_LLAMA
        if qk_norm:
            layout = RAVEN_OLMO
        scale = float(init["embed_scale"])
        # The converted checkpoints draw their state without the embedding scale.
        state_std = float(init["std"]) * (scale if layout == HUGINN else 1.0)
        tied = "tie_embeddings" if "tie_embeddings" in self._raw else "tie_word_embeddings"
        return LoopedConfig(
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
            norm_eps=self._number("norm_eps"),
            rope_base=self._number("rope_base"),
            embed_scale=scale,
            state_std=state_std,
            tied=self._get(tied, bool),
            qk_bias=layout == HUGINN,
            init_std=float(init["std"]),
            init_out_std=float(init["out_proj"]),
            rope_scaling=self._rope_scaling(),
        )

    def ouro(self) -> LoopedConfig:
        """Ouro: all layers are looped, nothing is injected."""
        self._expect("hidden_act", "silu")
        self._expect("use_sliding_window", False)
        width, heads = self._get("hidden_size", int), self._get("num_attention_heads", int)
        # Like the library, only Ouro may leave the head size out.
        size = self._get("head_dim", int) if self._raw.get("head_dim") else width // heads
        std = self._number("initializer_range") if "initializer_range" in self._raw else 0.02
        return LoopedConfig(
            layout=OURO,
            n_embd=width,
            n_heads=heads,
            n_kv_heads=self._get("num_key_value_heads", int),
            head_dim=size,
            intermediate=self._get("intermediate_size", int),
            prelude=0,
            core=self._get("num_hidden_layers", int),
            coda=0,
            loops=self._get("total_ut_steps", int),
            vocab=self._get("vocab_size", int),
            block_size=self._get("max_position_embeddings", int),
            norm_eps=self._number("rms_norm_eps"),
            rope_base=self._number("rope_theta"),
            embed_scale=1.0,
            state_std=0.0,
            tied=self._get("tie_word_embeddings", bool),
            qk_bias=False,
            init_std=std,
            init_out_std=std,
            rope_scaling=self._rope_scaling(),
        )

    def check(self, config: LoopedConfig) -> None:
        """Refuse shapes that cannot be computed."""
        counts = (config.n_embd, config.n_kv_heads, config.head_dim, config.core, config.loops)
        if min(counts) < 1 or min(config.prelude, config.coda) < (1 if config.injects else 0):
            found = (*counts, config.prelude, config.coda)
            self._fail("width, heads, head_dim, layers, loops", found, "positive numbers")
        if config.n_heads % config.n_kv_heads:
            self._fail("num_key_value_heads", config.n_kv_heads, f"a divisor of {config.n_heads}")
        if config.head_dim % 2:
            self._fail("head_dim", config.head_dim, "an even number")

    def _rope_scaling(self) -> RopeScaling | None:
        raw = self._raw.get("rope_scaling")
        if raw is None:
            return None
        if raw.get("rope_type") != "llama3":
            self._fail("rope_scaling.rope_type", raw.get("rope_type"), "'llama3'")
        names = ("factor", "low_freq_factor", "high_freq_factor")
        for name in (*names, "original_max_position_embeddings"):
            if not isinstance(raw.get(name), (int, float)):
                self._fail(f"rope_scaling.{name}", raw.get(name), "a number")
        factor, low, high = (float(raw[name]) for name in names)
        return RopeScaling(factor, low, high, int(raw["original_max_position_embeddings"]))

    def _section(self, key: str) -> dict[str, Any]:
        section: dict[str, Any] = self._get(key, dict)
        for name in ("embed_scale", "std", "out_proj"):
            if not isinstance(section.get(name), (int, float)):
                self._fail(f"{key}.{name}", section.get(name), "a number")
        return section

    def _number(self, key: str) -> float:
        return float(self._get(key, (int, float)))

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
    """The config.json of a model, with the published key names of its layout."""
    found = _ouro_json(config) if config.layout == OURO else _raven_json(config)
    if config.rope_scaling is not None:
        scaling = config.rope_scaling
        found["rope_scaling"] = {
            "factor": scaling.factor,
            "high_freq_factor": scaling.high_freq_factor,
            "low_freq_factor": scaling.low_freq_factor,
            "original_max_position_embeddings": scaling.original_length,
            "rope_type": "llama3",
        }
    return found


def _raven_json(config: LoopedConfig) -> dict[str, Any]:
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


def _ouro_json(config: LoopedConfig) -> dict[str, Any]:
    return {
        "model_type": OURO,
        "architectures": ["OuroForCausalLM"],
        "early_exit_threshold": 1.0,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.n_embd,
        "initializer_range": config.init_std,
        "intermediate_size": config.intermediate,
        "max_position_embeddings": config.block_size,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.core,
        "num_key_value_heads": config.n_kv_heads,
        "rms_norm_eps": config.norm_eps,
        "rope_scaling": None,
        "rope_theta": config.rope_base,
        "tie_word_embeddings": config.tied,
        "total_ut_steps": config.loops,
        "use_sliding_window": False,
        "vocab_size": config.vocab,
    }
