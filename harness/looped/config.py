"""The shape of a looped language model: every number, and what its layout implies."""

from __future__ import annotations

from dataclasses import dataclass, replace

HUGINN = "huginn"
RAVEN_LLAMA = "raven_llama"
RAVEN_OLMO = "raven_olmo"
OURO = "ouro"


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
    def norms(self) -> int:
        """Norms in a block."""
        return 4 if self.layout in (HUGINN, OURO) else 2

    @property
    def norm_before_coda(self) -> bool:
        """Whether the final norm stands before the coda as well."""
        return self.layout == HUGINN

    @property
    def norm_after_loop(self) -> bool:
        """Whether the final norm ends every loop; then nothing stands between it and the head."""
        return self.layout == OURO

    @property
    def qk_norm(self) -> bool:
        """Whether the whole query and key vectors are normalised before they turn."""
        return self.layout == RAVEN_OLMO

    @property
    def injects(self) -> bool:
        """Whether an adapter mixes the prelude's output into every loop.

        A model that injects nothing starts its loop from the embeddings, and has an exit gate.
        """
        return self.layout != OURO

    def with_loops(self, loops: int) -> LoopedConfig:
        """The same model with another default number of loops."""
        return replace(self, loops=loops)
