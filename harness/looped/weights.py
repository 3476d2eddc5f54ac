"""Checkpoints on disk: strict reading, safetensors only, one tensor in memory twice at most."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from harness.looped.config import HUGINN, LoopedConfig
from harness.looped.config_files import read_config
from harness.looped.errors import WeightsError
from harness.looped.model import LoopedLM
from harness.looped.names import (
    EMBEDDING,
    HEAD,
    ROPE_TABLE,
    Part,
    Shape,
    expected_shapes,
    published_parts,
)
from harness.looped.rope import upstream_table
from harness.looped.saving import INDEX, save

__all__ = ["expected_shapes", "find", "load", "outline", "parameters", "save"]

SHIPPED = Path(__file__).resolve().parent.parent / "models"


def load(
    path_or_name: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> LoopedLM:
    """A model from a folder, or a shipped one by name, ready to run.

    Each tensor is cast as it is read, whatever its type in the file. Raises ConfigError or
    WeightsError, each naming file and tensor.
    """
    folder = find(path_or_name)
    config = read_config(folder / "config.json")
    files = _files(folder)
    if any(name.endswith(".attn.q_norm.weight") for file in files for name in _names(file)):
        config = read_config(folder / "config.json", qk_norm=True)
    reading = _Reading(folder, config, torch.device(device), dtype)
    for file in files:
        reading.take(file)
    return LoopedLM(config, reading.tensors())


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


def outline(config: LoopedConfig, dtype: torch.dtype = torch.bfloat16) -> LoopedLM:
    """A model of this shape on the meta device: sizes without memory."""
    shapes = expected_shapes(config).items()
    return LoopedLM(
        config, {name: torch.empty(s, dtype=dtype, device="meta") for name, s in shapes}
    )


def parameters(model: LoopedLM) -> int:
    """Numbers in a model's tensors; a tied head counts once."""
    return sum(tensor.numel() for tensor in model.tensors.values())


class _Reading:
    """The tensors of a checkpoint as they come in, file by file."""

    def __init__(
        self, folder: Path, config: LoopedConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._folder = folder
        self._config = config
        self._device = device
        self._dtype = dtype
        self._shapes = expected_shapes(config)
        self._parts = published_parts(config)
        self._seen: set[str] = set()
        self._tensors: dict[str, Tensor] = {}
        # A tied model may keep a second copy of its embedding; it is compared and dropped.
        self._copy = Part(HEAD, self._shapes[EMBEDDING]) if config.tied else None

    def take(self, file: Path) -> None:
        """Read one file. Raises WeightsError for names, shapes and types not expected."""
        with _opened(file) as source:
            for name in source.keys():  # noqa: SIM118
                if name in self._seen:
                    raise WeightsError(f"{file}: {name}: found it in two files, expected one")
                self._seen.add(name)
                tensor: Tensor = source.get_tensor(name)
                if name == ROPE_TABLE:
                    _check_table(file, tensor, self._config)
                else:
                    self._place(file, name, tensor)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by our names. Raises WeightsError for missing ones and an untied copy."""
        missing = sorted(set(self._parts) - self._seen)
        if missing:
            raise WeightsError(
                f"{self._folder}: missing {len(missing)} tensors, the first is {missing[0]}"
            )
        if self._copy is not None and HEAD in self._tensors:
            head = self._tensors.pop(HEAD)
            if not torch.equal(head, self._tensors[EMBEDDING]):
                raise WeightsError(
                    f"{self._folder}: {HEAD} differs from {EMBEDDING}, expected equal (tied)"
                )
        return self._tensors

    def _place(self, file: Path, name: str, tensor: Tensor) -> None:
        part = self._parts.get(name) or (self._copy if name == HEAD else None)
        _check(file, name, tensor, None if part is None else part.shape)
        assert part is not None
        if part.row is None:
            self._tensors[part.name] = tensor.to(device=self._device, dtype=self._dtype)
            return
        if part.name not in self._tensors:
            shape = self._shapes[part.name]
            self._tensors[part.name] = torch.empty(shape, dtype=self._dtype, device=self._device)
        self._tensors[part.name].narrow(0, part.row, part.shape[0]).copy_(tensor)


def _files(folder: Path) -> list[Path]:
    """The weight files: those that the index names, or every model*.safetensors."""
    index = folder / INDEX
    if not index.is_file():
        files = sorted(folder.glob("model*.safetensors"))
        if not files:
            raise WeightsError(f"{folder}: found no model*.safetensors, expected at least one")
        return files
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{index}: not a readable index: {error!r}") from error
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise WeightsError(f"{index}: names the file {name}, expected it beside the index")
    return [folder / name for name in names]


def _opened(file: Path) -> safe_open:
    try:
        return safe_open(str(file), framework="pt")
    except Exception as error:
        raise WeightsError(f"{file}: not a readable safetensors file: {error}") from error


def _names(file: Path) -> Iterator[str]:
    with _opened(file) as source:
        yield from source.keys()


def _check(file: Path, name: str, tensor: Tensor, shape: Shape | None) -> None:
    if shape is None:
        raise WeightsError(f"{file}: {name}: unknown tensor; the config names no such layer")
    if tuple(tensor.shape) != shape:
        raise WeightsError(f"{file}: {name}: found shape {tuple(tensor.shape)}, expected {shape}")
    if not tensor.is_floating_point():
        raise WeightsError(f"{file}: {name}: found {tensor.dtype}, expected a float type")


def _check_table(file: Path, tensor: Tensor, config: LoopedConfig) -> None:
    if config.layout != HUGINN:
        raise WeightsError(f"{file}: {ROPE_TABLE}: unknown tensor for layout {config.layout}")
    expected = upstream_table(config)
    _check(file, ROPE_TABLE, tensor, tuple(expected.shape))
    tolerance = 1e-5 if tensor.dtype == torch.float32 else 1e-2
    error = float((tensor.float() - expected).abs().max())
    if not error <= tolerance:
        raise WeightsError(
            f"{file}: {ROPE_TABLE}: differs from rope_base {config.rope_base} by {error:.2g}, "
            f"expected at most {tolerance}"
        )
