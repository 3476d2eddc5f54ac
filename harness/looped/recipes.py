"""Training recipes: every number that decides what a trained model becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from harness.looped.config import HUGINN, LoopedConfig


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training: before this step, so many rows of this length (in tokens)."""

    until: int
    rows: int
    length: int


@dataclass(frozen=True, slots=True)
class Slope:
    """A linear change of the learning rate between two steps, as factors of the base rate."""

    begin: int
    end: int
    first: float
    last: float

    def at(self, step: int) -> float:
        """The factor at a step, constant outside the slope."""
        share = (step - self.begin) / (self.end - self.begin)
        return self.first - (self.first - self.last) * min(1.0, max(0.0, share))


@dataclass(frozen=True, slots=True)
class Recipe:
    """One reproducible training run, defined by steps and never by time.

    From step `focus_from` on, the source weighs the tokens that are hard to learn more.

    The last fields slow a loop down. `adapter_start` (a, b) starts the adapter at a * I on the
    state and b * Q on the prelude's output, Q orthogonal and drawn from the seed. Matrices whose
    name matches a pattern of `caps` keep a Frobenius norm of at most the cap, from the start on,
    and a full step moves them by `cap_step` of it at most. Tensors that match `frozen` keep their
    start values; those that match `warm_tensors` start from the shipped model `warm_start`.
    """

    name: str
    seed: int
    phases: tuple[Phase, ...]
    slopes: tuple[Slope, ...]
    focus_from: int
    loops_ramp: int
    loops_mean: tuple[float, float] = (3.0, 16.0)
    loops_sigma: float = 0.5
    loops_max: int = 40
    backprop_loops: int = 5
    matrix_lr: float = 0.02
    matrix_decay: float = 0.05
    vector_lr: float = 0.004
    core_gain_lr: float = 0.0004
    clip: float = 1.0
    warmup_steps: int = 100
    adapter_start: tuple[float, float] | None = None
    caps: tuple[tuple[str, float], ...] = ()
    cap_step: float = 0.03
    frozen: tuple[str, ...] = ()
    warm_start: str = ""
    warm_tensors: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return self.phases[-1].until

    def phase(self, step: int) -> Phase:
        """The phase that a step (from 0) belongs to."""
        return next(p for p in self.phases if step < p.until)

    def mean_loops(self, step: int) -> float:
        """Mean number of loops at a step: a linear ramp, then constant."""
        low, high = self.loops_mean
        return low + (high - low) * min(1.0, step / self.loops_ramp)

    def rate(self, step: int) -> float:
        """Factor on every learning rate: linear warm-up, then the latest slope that has begun."""
        rise = min(1.0, (step + 1) / self.warmup_steps)
        begun = [slope for slope in self.slopes if slope.begin <= step]
        return rise * (begun[-1].at(step) if begun else 1.0)

    def cap(self, name: str) -> float | None:
        """The largest Frobenius norm of a tensor; None where it is free."""
        return next((cap for pattern, cap in self.caps if fnmatchcase(name, pattern)), None)

    def is_frozen(self, name: str) -> bool:
        """Whether a tensor keeps its start values."""
        return any(fnmatchcase(name, pattern) for pattern in self.frozen)

    def is_warm(self, name: str) -> bool:
        """Whether a tensor starts from the model `warm_start`."""
        return any(fnmatchcase(name, pattern) for pattern in self.warm_tensors)

    def first_steps(self, count: int) -> Recipe:
        """The same recipe broken off after `count` steps, for trials."""
        phases = [p for p in self.phases if p.until < count]
        return replace(self, phases=(*phases, replace(self.phase(count - 1), until=count)))


RECIPES = {
    "ripe": Recipe(
        "ripe",
        seed=20_251,
        phases=(
            Phase(3000, 21, 192),
            Phase(5500, 12, 320),
            Phase(6200, 8, 512),
            Phase(6400, 4, 1024),
        ),
        slopes=(Slope(2400, 6000, 1.0, 0.01), Slope(4000, 6400, 0.56, 0.01)),
        focus_from=4000,
        loops_ramp=3000,
    ),
    "unripe": Recipe(
        "unripe",
        seed=20_252,
        phases=(
            Phase(1500, 12, 192),
            Phase(2050, 7, 320),
            Phase(2270, 4, 512),
            Phase(2300, 2, 1024),
        ),
        slopes=(Slope(1300, 2600, 1.0, 0.01), Slope(1500, 2300, 0.8477, 0.01)),
        focus_from=1600,
        loops_ramp=1500,
        loops_mean=(10.0, 16.0),
        backprop_loops=8,
        adapter_start=(0.98, 0.06),
        caps=(
            ("transformer.core_block.*.attn.proj.weight", 0.2),
            ("transformer.core_block.*.mlp.proj.weight", 0.5),
            ("transformer.core_block.*.attn.Wqkv.weight", 16.0),
            ("transformer.core_block.*.mlp.fc.weight", 20.0),
        ),
        cap_step=0.1,
        frozen=(
            "transformer.adapter.weight",
            "transformer.core_block.*.norm_[24].weight",
            "transformer.prelude.*.norm_4.weight",
        ),
        warm_start="tiny_ripe",
        warm_tensors=(
            "transformer.wte.weight",
            "transformer.prelude.*",
            "transformer.coda.*",
            "transformer.ln_f.weight",
        ),
    ),
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
