"""Weights of a published checkpoint into SGLang's layers: every name known, every shape right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.models.settings import Settings, SettingsError
from harness.looped.names import EMBEDDING, HEAD, ROPE_TABLE, expected_shapes

if TYPE_CHECKING:
    from torch import Tensor

_FUSED_QKV = ".attn.Wqkv.weight"
_FUSED_MLP = ".mlp.fc.weight"


def load(model: Any, settings: Settings, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
    """Fill a model's parameters; the result is their names.

    A tied checkpoint may repeat its embedding as a head, and a Huginn one its rotary table: the
    first must be equal, the second is computed. Raises SettingsError naming the tensor.
    """
    shapes = expected_shapes(settings.config)
    parameters = dict(model.named_parameters())
    copies: dict[str, Tensor] = {}
    seen: set[str] = set()
    for name, tensor in weights:
        if name == ROPE_TABLE:
            continue
        known = EMBEDDING if name == HEAD and settings.config.tied else name
        _check(name, tensor, shapes.get(known))
        if name == HEAD and settings.config.tied:
            copies[name] = tensor
            continue
        seen.add(name)
        _place(parameters[name], settings, name, tensor)
        if name == EMBEDDING and settings.config.tied:
            copies[name] = tensor
    missing = sorted(set(shapes) - seen)
    if missing:
        raise SettingsError(f"weights: missing {len(missing)} tensors, the first is {missing[0]}")
    if HEAD in copies and not copies[HEAD].equal(copies[EMBEDDING]):
        raise SettingsError(f"weights: {HEAD} differs from {EMBEDDING}, expected equal (tied)")
    return seen


def _check(name: str, tensor: Tensor, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        raise SettingsError(f"weights: {name}: unknown tensor; the config names no such layer")
    if tuple(tensor.shape) != shape:
        raise SettingsError(f"weights: {name}: found shape {tuple(tensor.shape)}, expected {shape}")


def _place(parameter: Any, settings: Settings, name: str, tensor: Tensor) -> None:
    from sglang.srt.model_loader.weight_utils import default_weight_loader

    config = settings.config
    if name.endswith(_FUSED_QKV):
        kv = config.n_kv_heads * config.head_dim
        sizes = [config.n_heads * config.head_dim, kv, kv]
        parts = tensor.split(sizes)  # type: ignore[no-untyped-call]
        for part, shard in zip(parts, ("q", "k", "v"), strict=True):
            parameter.weight_loader(parameter, part, shard)
    elif name.endswith(_FUSED_MLP):
        for place, part in enumerate(tensor.chunk(2)):
            parameter.weight_loader(parameter, part, place)
    else:
        put = getattr(parameter, "weight_loader", default_weight_loader)
        put(parameter, tensor)
