"""Looped language models: weights, caches, decoding and training.

The public names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.looped.cache import PlaneCache
    from harness.looped.decode import generate
    from harness.looped.errors import (
        BudgetError,
        ConfigError,
        LoopedError,
        PolicyError,
        WeightsError,
    )
    from harness.looped.exits import exit_shares
    from harness.looped.generation import Generation, Sampling, Sequential, Speculative
    from harness.looped.memory import cache_bytes
    from harness.looped.model import LoopedLM
    from harness.looped.planner import Budget, Fit, plan
    from harness.looped.policies import (
        Policy,
        compress,
        deepest,
        every_nth,
        first_loops,
        full,
        last_loops,
        per_head,
        ripe,
        second_plane,
        sinks_ripe,
    )
    from harness.looped.probes import Probed, perturbed, probe
    from harness.looped.published import PUBLISHED
    from harness.looped.replaying import Replay, replay
    from harness.looped.ripeness import Ripeness, measure_ripeness
    from harness.looped.saving import save_checkpoint
    from harness.looped.streaming import stream_distances, stream_replay, stream_states
    from harness.looped.waves import Wavefront, Waves, wavefront
    from harness.looped.weights import load, outline, parameters

_HOMES = {
    "cache": ["PlaneCache"],
    "decode": ["generate"],
    "errors": ["BudgetError", "ConfigError", "LoopedError", "PolicyError", "WeightsError"],
    "exits": ["exit_shares"],
    "generation": ["Generation", "Sampling", "Sequential", "Speculative"],
    "memory": ["cache_bytes"],
    "model": ["LoopedLM"],
    "planner": ["Budget", "Fit", "plan"],
    "policies": [
        "Policy",
        "compress",
        "deepest",
        "every_nth",
        "first_loops",
        "full",
        "last_loops",
        "per_head",
        "ripe",
        "second_plane",
        "sinks_ripe",
    ],
    "probes": ["Probed", "perturbed", "probe"],
    "published": ["PUBLISHED"],
    "replaying": ["Replay", "replay"],
    "ripeness": ["Ripeness", "measure_ripeness"],
    "saving": ["save_checkpoint"],
    "streaming": ["stream_distances", "stream_replay", "stream_states"],
    "waves": ["Wavefront", "Waves", "wavefront"],
    "weights": ["load", "outline", "parameters"],
}

__all__ = [
    "PUBLISHED",
    "Budget",
    "BudgetError",
    "ConfigError",
    "Fit",
    "Generation",
    "LoopedError",
    "LoopedLM",
    "PlaneCache",
    "Policy",
    "PolicyError",
    "Probed",
    "Replay",
    "Ripeness",
    "Sampling",
    "Sequential",
    "Speculative",
    "Wavefront",
    "Waves",
    "WeightsError",
    "cache_bytes",
    "compress",
    "deepest",
    "every_nth",
    "exit_shares",
    "first_loops",
    "full",
    "generate",
    "last_loops",
    "load",
    "measure_ripeness",
    "outline",
    "parameters",
    "per_head",
    "perturbed",
    "plan",
    "probe",
    "replay",
    "ripe",
    "save_checkpoint",
    "second_plane",
    "sinks_ripe",
    "stream_distances",
    "stream_replay",
    "stream_states",
    "wavefront",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
