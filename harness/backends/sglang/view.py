"""A folder that SGLang loads, made beside a published checkpoint: its config.json and links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.models.settings import (
    ARCHITECTURE,
    KEY,
    Settings,
    SettingsError,
)

if TYPE_CHECKING:
    from harness.looped.config import LoopedConfig

DTYPES = ("float32", "bfloat16", "float16")
_INDEX = "model.safetensors.index.json"


def make_view(
    model_folder: Path,
    target: Path,
    *,
    loops: int,
    planes: str,
    dtype: str,
    start: str = "keyed",
    seed: int = 0,
) -> None:
    """Write `target` (made if absent): a config.json for SGLang and links to the weights.

    `planes` is `full` or `shared`, `dtype` the engine's type of number (the files may have
    another), `start` and `seed` the start state of `harness.looped`. The config needs neither
    remote code nor a network: SGLang sees a Llama of as many layers as there are cache planes, and
    the model class reads the key 'looped'. Raises SettingsError, ConfigError or FileExistsError.
    """
    config = _read(model_folder)
    if dtype not in DTYPES:
        raise SettingsError(f"dtype: found '{dtype}', expected one of {', '.join(DTYPES)}")
    settings = Settings(config, loops, planes, start, seed)
    target.mkdir(parents=True, exist_ok=True)
    files = _weight_files(model_folder)
    index = model_folder / _INDEX
    for file in [*files, *([index] if index.is_file() else [])]:
        (target / file.name).symlink_to(file.resolve())
    text = json.dumps(engine_config(settings, dtype), indent=1, sort_keys=True)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")


def engine_config(settings: Settings, dtype: str) -> dict[str, Any]:
    """The content of SGLang's config.json."""
    config = settings.config
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "hidden_size": config.n_embd,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": settings.cache_layers,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.block_size,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tied,
        "dtype": dtype,
        # The harness names its stop tokens in every request; a Llama's defaults would end answers.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        KEY: settings.to_json(),
    }


def _read(folder: Path) -> LoopedConfig:
    from harness.looped.config_files import read_config

    config = read_config(folder / "config.json")
    if any(name.endswith(".attn.q_norm.weight") for name in _names(folder)):
        return read_config(folder / "config.json", qk_norm=True)
    return config


def _names(folder: Path) -> set[str]:
    """Tensor names of a checkpoint, from the headers of its files."""
    names: set[str] = set()
    for file in _weight_files(folder):
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            names |= set(json.loads(stream.read(size)))
    return names


def _weight_files(folder: Path) -> list[Path]:
    """The weight files: those that an index names, or every model*.safetensors."""
    index = folder / _INDEX
    if index.is_file():
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        files = [folder / name for name in sorted(set(named))]
    else:
        files = sorted(folder.glob("model*.safetensors"))
    missing = [str(file) for file in files if not file.is_file()]
    if missing or not files:
        found = f"no {missing[0]}" if missing else "no model*.safetensors"
        raise SettingsError(f"{folder}: found {found}, expected a checkpoint's weight files")
    return files
