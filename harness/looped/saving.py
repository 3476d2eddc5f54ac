"""Writing checkpoints in the published layouts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from harness.looped.config import HUGINN, LoopedConfig
from harness.looped.config_files import config_json
from harness.looped.names import EMBEDDING, HEAD, ROPE_TABLE, published_parts
from harness.looped.rope import upstream_table

INDEX = "model.safetensors.index.json"


def save(folder: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write model.safetensors under our own names, rounded to dtype, and return its path."""
    path = folder / "model.safetensors"
    _write(path, {name: tensors[name].detach().to(dtype) for name in sorted(tensors)})
    return path


def save_checkpoint(
    folder: Path,
    config: LoopedConfig,
    tensors: Mapping[str, Tensor],
    *,
    dtype: torch.dtype = torch.bfloat16,
    shard_bytes: int | None = None,
    complete: bool = False,
) -> list[Path]:
    """Write config.json and weights under the published names; return the weight files.

    `tensors` has our names, as `LoopedLM.tensors`. With `shard_bytes` the files stay below that
    size where single tensors allow it, and an index names them. `complete` adds what published
    Huginn files repeat: the rotary table and the second copy of a tied head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", config_json(config))
    ready = {name: t.to(dtype) for name, t in _published(config, tensors).items()}
    if complete and config.layout == HUGINN:
        ready[ROPE_TABLE] = upstream_table(config).to(dtype)
        if config.tied:
            ready[HEAD] = ready[EMBEDDING].clone()
    shards = _shards(ready, shard_bytes)
    if len(shards) == 1:
        paths = [folder / "model.safetensors"]
    else:
        of = len(shards)
        paths = [folder / f"model-{i:05d}-of-{of:05d}.safetensors" for i in range(1, of + 1)]
        places = zip(shards, paths, strict=True)
        where = {name: path.name for shard, path in places for name in shard}
        _write_json(folder / INDEX, {"metadata": {}, "weight_map": where})
    for shard, path in zip(shards, paths, strict=True):
        _write(path, {name: ready[name] for name in shard})
    return paths


def _published(config: LoopedConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, part in published_parts(config).items():
        whole = tensors[part.name].detach()
        found[name] = whole if part.row is None else whole.narrow(0, part.row, part.shape[0])
    return found


def _shards(tensors: Mapping[str, Tensor], limit: int | None) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    size = 0
    for name in sorted(tensors):
        bytes_ = tensors[name].numel() * tensors[name].element_size()
        if limit is not None and shards[-1] and size + bytes_ > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += bytes_
    return shards


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    ready = {name: tensor.contiguous() for name, tensor in tensors.items()}
    path.write_bytes(to_bytes(ready, metadata={"format": "pt"}))


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
