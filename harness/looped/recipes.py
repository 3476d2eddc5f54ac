"""Training recipes: every number that decides what a trained model becomes."""

from __future__ import annotations

from dataclasses import dataclass

from harness.looped.config import HUGINN, LoopedConfig


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training: until this share of all steps, rows of this length (in tokens)."""

    until: float
    rows: int
    length: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """One reproducible training run, defined by steps and never by time."""

    name: str
    seed: int
    steps: int
    phases: tuple[Phase, ...]
    loops_mean: tuple[float, float] = (3.0, 16.0)
    loops_ramp: float = 0.5
    loops_sigma: float = 0.5
    loops_max: int = 40
    backprop_loops: int = 5
    matrix_lr: float = 0.02
    matrix_decay: float = 0.05
    vector_lr: float = 0.004
    core_gain_lr: float = 0.0004
    clip: float = 1.0
    warmup_steps: int = 100
    decay_from: float = 0.4

    def phase(self, step: int) -> Phase:
        """The phase that a step (from 0) belongs to."""
        return next(p for p in self.phases if step < p.until * self.steps)

    def mean_loops(self, step: int) -> float:
        """Mean number of loops at a step: a linear ramp, then constant."""
        low, high = self.loops_mean
        return low + (high - low) * min(1.0, step / (self.loops_ramp * self.steps))

    def rate(self, step: int) -> float:
        """Factor on every learning rate: linear warm-up, constant, linear decay to 1 %."""
        rise = min(1.0, (step + 1) / self.warmup_steps)
        start = self.decay_from * self.steps
        fall = (step - start) / (self.steps - start)
        return rise * (1.0 - 0.99 * max(0.0, fall))


PHASES = (
    Phase(0.50, 21, 192),
    Phase(0.80, 12, 320),
    Phase(0.95, 8, 512),
    Phase(1.00, 4, 1024),
)

RECIPES = {
    "ripe": Recipe("ripe", seed=20_251, steps=6000, phases=PHASES),
}


def tiny_config(vocab: int) -> LoopedConfig:
    """The embedded models' shape: Huginn layout, 1/2/1 layers, width 128."""
    n, effective = 128, 1 + 2 * 16 + 1
    std = (2 / (5 * n)) ** 0.5
    return LoopedConfig(
        layout=HUGINN,
        n_embd=n,
        n_heads=4,
        n_kv_heads=4,
        head_dim=32,
        intermediate=384,
        prelude=1,
        core=2,
        coda=1,
        loops=32,
        vocab=vocab,
        block_size=2048,
        norm_eps=1e-6,
        rope_base=50_000.0,
        embed_scale=n**0.5,
        state_std=std * n**0.5,
        tied=True,
        qk_bias=True,
        init_std=std,
        init_out_std=std / (2 * effective) ** 0.5,
    )
