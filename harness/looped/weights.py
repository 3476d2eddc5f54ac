"""Checkpoints on disk: strict reading, cautious writing, safetensors only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from harness.looped.config import LoopedConfig, read_config
from harness.looped.errors import WeightsError
from harness.looped.model import LoopedLM
from harness.looped.rope import upstream_table

SHIPPED = Path(__file__).resolve().parent.parent / "models"
_ROPE_TABLE = "freqs_cis"
_HEAD = "lm_head.weight"
_EMBEDDING = "transformer.wte.weight"


def load(
    path_or_name: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> LoopedLM:
    """A model from a folder, or a shipped one by name, ready to run.

    Raises ConfigError or WeightsError, each naming file and tensor.
    """
    folder = find(path_or_name)
    config = read_config(folder / "config.json")
    return LoopedLM(config, _read(folder, config, torch.device(device), dtype))


def find(path_or_name: str | Path) -> Path:
    """The folder of a model: a shipped name first, then a path."""
    shipped = SHIPPED / str(path_or_name)
    if str(path_or_name).isidentifier() and (shipped / "config.json").is_file():
        return shipped
    folder = Path(path_or_name)
    if not folder.is_dir():
        names = sorted(p.parent.name for p in SHIPPED.glob("*/config.json"))
        raise WeightsError(
            f"{path_or_name}: no such model folder; shipped models: {', '.join(names) or 'none'}"
        )
    return folder


def expected_shapes(config: LoopedConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a model of this config has, by published name; shapes are [out, in]."""
    n, h = config.n_embd, config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        _EMBEDDING: (config.vocab, n),
        "transformer.adapter.weight": (n, 2 * n),
        "transformer.ln_f.weight": (n,),
    }
    if not config.tied:
        shapes[_HEAD] = (config.vocab, n)
    counts = {"prelude": config.prelude, "core_block": config.core, "coda": config.coda}
    for group, count in counts.items():
        for index in range(count):
            prefix = f"transformer.{group}.{index}"
            for number in range(1, 5 if config.sandwich else 3):
                shapes[f"{prefix}.norm_{number}.weight"] = (n,)
            rows = (config.n_heads + 2 * config.n_kv_heads) * h
            shapes[f"{prefix}.attn.Wqkv.weight"] = (rows, n)
            if config.qk_bias:
                shapes[f"{prefix}.attn.qk_bias"] = (2, 1, config.n_heads, h)
            shapes[f"{prefix}.attn.proj.weight"] = (n, config.n_heads * h)
            shapes[f"{prefix}.mlp.fc.weight"] = (2 * config.intermediate, n)
            shapes[f"{prefix}.mlp.proj.weight"] = (n, config.intermediate)
    return shapes


def save(folder: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write model.safetensors, rounded to dtype, and return its path."""
    path = folder / "model.safetensors"
    ready = {name: tensors[name].detach().to(dtype).contiguous() for name in sorted(tensors)}
    path.write_bytes(to_bytes(ready, metadata={"format": "pt"}))
    return path


def _read(
    folder: Path, config: LoopedConfig, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    files = [file for file in files if file.name.startswith("model")]
    if not files:
        raise WeightsError(f"{folder}: found no model*.safetensors, expected at least one")
    shapes = expected_shapes(config)
    tensors: dict[str, Tensor] = {}
    for file in files:
        with safe_open(str(file), framework="pt") as source:
            for name in source.keys():  # noqa: SIM118
                if name in tensors:
                    raise WeightsError(f"{file}: {name}: found it in two files, expected one")
                tensor = source.get_tensor(name)
                if name == _ROPE_TABLE:
                    _check_table(file, tensor, config)
                else:
                    shape = shapes[_EMBEDDING] if name == _HEAD else shapes.get(name)
                    _check(file, name, tensor, shape)
                tensors[name] = tensor.to(device=device, dtype=dtype)
    tensors.pop(_ROPE_TABLE, None)
    missing = sorted(set(shapes) - set(tensors))
    if missing:
        raise WeightsError(f"{folder}: missing {len(missing)} tensors, the first is {missing[0]}")
    _drop_tied_copy(folder, tensors, config)
    return tensors


def _check(file: Path, name: str, tensor: Tensor, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        raise WeightsError(f"{file}: {name}: unknown tensor; the config names no such layer")
    if tuple(tensor.shape) != shape:
        raise WeightsError(f"{file}: {name}: found shape {tuple(tensor.shape)}, expected {shape}")
    if not tensor.is_floating_point():
        raise WeightsError(f"{file}: {name}: found {tensor.dtype}, expected a float type")


def _check_table(file: Path, tensor: Tensor, config: LoopedConfig) -> None:
    if not config.sandwich:
        raise WeightsError(f"{file}: {_ROPE_TABLE}: unknown tensor for layout {config.layout}")
    expected = upstream_table(config)
    _check(file, _ROPE_TABLE, tensor, tuple(expected.shape))
    tolerance = 1e-5 if tensor.dtype == torch.float32 else 1e-2
    error = float((tensor.float() - expected).abs().max())
    if error > tolerance:
        raise WeightsError(
            f"{file}: {_ROPE_TABLE}: differs from rope_base {config.rope_base} by {error:.2g}, "
            f"expected at most {tolerance}"
        )


def _drop_tied_copy(folder: Path, tensors: dict[str, Tensor], config: LoopedConfig) -> None:
    if not config.tied or _HEAD not in tensors:
        return
    if not torch.equal(tensors[_HEAD], tensors[_EMBEDDING]):
        raise WeightsError(f"{folder}: {_HEAD} differs from {_EMBEDDING}, expected equal (tied)")
    del tensors[_HEAD]
