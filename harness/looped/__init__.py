"""Looped language models: weights, caches, decoding and training.

The public names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.looped.cache import PlaneCache
    from harness.looped.decode import generate
    from harness.looped.errors import ConfigError, LoopedError, PolicyError, WeightsError
    from harness.looped.generation import Generation, Sequential, Speculative
    from harness.looped.memory import cache_bytes
    from harness.looped.model import LoopedLM
    from harness.looped.policies import Policy, deepest, first_loops, full, last_loops, ripe
    from harness.looped.replaying import Replay, replay
    from harness.looped.weights import load

_HOMES = {
    "cache": ["PlaneCache"],
    "decode": ["generate"],
    "errors": ["ConfigError", "LoopedError", "PolicyError", "WeightsError"],
    "generation": ["Generation", "Sequential", "Speculative"],
    "memory": ["cache_bytes"],
    "model": ["LoopedLM"],
    "policies": ["Policy", "deepest", "first_loops", "full", "last_loops", "ripe"],
    "replaying": ["Replay", "replay"],
    "weights": ["load"],
}

__all__ = [
    "ConfigError",
    "Generation",
    "LoopedError",
    "LoopedLM",
    "PlaneCache",
    "Policy",
    "PolicyError",
    "Replay",
    "Sequential",
    "Speculative",
    "WeightsError",
    "cache_bytes",
    "deepest",
    "first_loops",
    "full",
    "generate",
    "last_loops",
    "load",
    "replay",
    "ripe",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
