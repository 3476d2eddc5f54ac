"""What SGLang's config.json says about a looped model, and which cache layer holds which plane."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.looped.config import HUGINN, RAVEN_LLAMA, LoopedConfig, RopeScaling

ARCHITECTURE = "RavenForCausalLM"
KEY = "looped"
"""The key of config.json that holds these settings; all other keys are there for SGLang."""

FULL = "full"
SHARED = "shared"
STARTS = ("zero", "keyed")
LAYOUTS = (HUGINN, RAVEN_LLAMA)

PRELUDE = "prelude"
CORE = "core_block"
CODA = "coda"


class SettingsError(ValueError):
    """A looped model that cannot be served as asked."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A looped model with its number of loops, its cache planes and its start state.

    `planes` is `full`, where each loop of each core layer has a cache layer of its own, or
    `shared`, where all loops of a core layer write the same one, so that the last loop's values
    stay. `start` and `seed` are those of `harness.looped.start`.
    """

    config: LoopedConfig
    loops: int
    planes: str
    start: str = "keyed"
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise SettingsError for what no code here can serve."""
        _among("layout", self.config.layout, LAYOUTS)
        _among("planes", self.planes, (FULL, SHARED))
        _among("start", self.start, STARTS)
        if self.loops < 1:
            raise SettingsError(f"loops: found {self.loops}, expected at least 1")

    @property
    def core_layers(self) -> int:
        """Cache layers that the core takes."""
        return self.config.core * (self.loops if self.planes == FULL else 1)

    @property
    def cache_layers(self) -> int:
        """Cache layers of the whole model: prelude, core, coda, in this order."""
        return self.config.prelude + self.core_layers + self.config.coda

    @property
    def core_ids(self) -> range:
        """The cache layers of the core."""
        return range(self.config.prelude, self.config.prelude + self.core_layers)

    def cache_ids(self, kind: str, layer: int) -> list[int]:
        """The cache layers that a layer of a kind writes: one for each loop, or just one."""
        if kind == PRELUDE:
            return [layer]
        if kind == CODA:
            return [self.config.prelude + self.core_layers + layer]
        step = self.config.core if self.planes == FULL else 0
        return [self.config.prelude + layer + step * loop for loop in range(self.loops)]

    def to_json(self) -> dict[str, Any]:
        """These settings as an object for config.json."""
        return asdict(self)


def settings_from(raw: object) -> Settings:
    """The settings that `to_json` wrote. Raises SettingsError for anything else."""
    if not isinstance(raw, dict):
        raise SettingsError(f"config.json: found no object '{KEY}'; make the folder with make_view")
    try:
        config = LoopedConfig(**raw["config"])
        if isinstance(config.rope_scaling, dict):
            config = replace(config, rope_scaling=RopeScaling(**config.rope_scaling))
        return Settings(**{**raw, "config": config})
    except (KeyError, TypeError) as error:
        raise SettingsError(f"config.json: {KEY}: not the settings of a model: {error}") from error


def _among(name: str, found: str, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        raise SettingsError(f"{name}: found '{found}', expected one of {', '.join(allowed)}")
