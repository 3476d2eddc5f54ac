"""Training of the embedded models: seeded, resumable, one thread."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.block import Attend
from harness.looped.config import LoopedConfig
from harness.looped.errors import WeightsError
from harness.looped.model import LoopedLM, Table
from harness.looped.names import ADAPTER
from harness.looped.optimiser import Optimiser
from harness.looped.recipes import Recipe
from harness.looped.start import KEYED, ZERO
from harness.looped.weights import expected_shapes

# step, rows, length -> token ids and prediction weights, each [rows, length + 1]
Source = Callable[[int, int, int], tuple[list[list[int]], list[list[float]]]]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training run leaves behind; `data_digest` chains the SHA-256 of every batch."""

    tensors: dict[str, Tensor]
    steps: int
    tokens: int
    data_digest: str
    last_loss: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and targets [B, T], and the weight of each target."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    digest: str


def initial_tensors(config: LoopedConfig, seed: int) -> dict[str, Tensor]:
    """float32 start weights: truncated normal, gains one, biases zero."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected_shapes(config).items():
        if len(shape) == 1:
            tensors[name] = torch.ones(shape)
        elif name.endswith("qk_bias"):
            tensors[name] = torch.zeros(shape)
        else:
            std = config.init_out_std if ".proj." in name else config.init_std
            tensors[name] = torch.empty(shape)
            torch.nn.init.trunc_normal_(
                tensors[name], std=std, a=-3 * std, b=3 * std, generator=generator
            )
    return tensors


def start_tensors(
    config: LoopedConfig, recipe: Recipe, warm: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """float32 start weights of a recipe; `warm` are the tensors of the model it starts from.

    Raises WeightsError where the recipe needs other warm tensors than those given.
    """
    tensors = initial_tensors(config, recipe.seed)
    if recipe.adapter_start is not None:
        tensors[ADAPTER] = _slow_adapter(config.n_embd, recipe.seed, *recipe.adapter_start)
    for name in tensors:
        if recipe.is_warm(name):
            source = None if warm is None else warm.get(name)
            if source is None or source.shape != tensors[name].shape:
                raise WeightsError(
                    f"{name}: not in the model '{recipe.warm_start}' that the recipe starts from, "
                    f"expected shape {tuple(tensors[name].shape)}"
                )
            tensors[name] = source.float().clone()
    return tensors


def _slow_adapter(width: int, seed: int, keep: float, push: float) -> Tensor:
    """[n, 2n]: `keep` times the state, plus `push` times the prelude's output turned around."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(width, width, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(noise).Q
    return torch.cat([keep * torch.eye(width, dtype=torch.float64), push * turn], 1).float()


def draw_loops(recipe: Recipe, step: int) -> int:
    """Loops of one step: 1 + Poisson of a log-normal rate, with the step's mean."""
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
    z = torch.randn((), generator=generator, dtype=torch.float64)
    sigma = recipe.loops_sigma
    rate = (recipe.mean_loops(step) - 1) * torch.exp(sigma * z - sigma**2 / 2)
    return min(1 + int(torch.poisson(rate, generator=generator)), recipe.loops_max)


class BlockedPass:
    """Causal attention written out over blocks of queries; keys after a block are never touched.

    On a CPU with bfloat16 matrices this is three to four times faster, gradients included, than
    the fused call.
    """

    _BLOCK = 128

    def __init__(self, length: int) -> None:
        self._mask = torch.full((length, length), float("-inf"), dtype=torch.bfloat16).triu(1)

    def attend(self, kind: str, layer: int, loop: int) -> Attend:  # noqa: ARG002
        """The same attention for every layer."""
        return self._attention

    def _attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q * q.shape[-1] ** -0.5, k, v))
        parts = []
        for begin in range(0, q.shape[2], self._BLOCK):
            end = min(begin + self._BLOCK, q.shape[2])
            scores = q[:, :, begin:end] @ k[:, :, :end].transpose(-1, -2)
            scores = scores + self._mask[begin:end, :end]
            parts.append(torch.softmax(scores, -1) @ v[:, :, :end])
        return torch.cat(parts, 2).transpose(1, 2)


def weighted_loss(
    model: LoopedLM, x: Tensor, table: Table, memory: BlockedPass, targets: Tensor, weights: Tensor
) -> Tensor:
    """Coda, head and weighted mean of the next-token losses, in nats."""
    logits = model.finish(x, table, memory)
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


def use_one_thread() -> None:
    """Small operations are many times slower when threads share busy cores."""
    torch.set_num_threads(1)


class Trainer:
    """A training run in progress; `state.safetensors` in `folder` is where it resumes."""

    def __init__(
        self,
        config: LoopedConfig,
        recipe: Recipe,
        source: Source,
        folder: Path,
        report: Report,
        *,
        warm: Mapping[str, Tensor] | None = None,
        watch: Callable[[LoopedLM], str] | None = None,
        compiled: bool = True,
    ) -> None:
        self.recipe = recipe
        self.watch = watch
        self.source = source
        self.folder = folder
        self.report = report
        self.optimiser = Optimiser(recipe, start_tensors(config, recipe, warm))
        self.model = LoopedLM(config, self.optimiser.working)
        self.step = 0
        self.tokens = 0
        self.digest = ""
        self.loss = float("nan")
        self._embed: Any = self.model.embed
        self._loop: Any = self.model.loop
        self._finish: Any = weighted_loss
        if compiled:
            # One graph for each row length and gradient mode: more than the default limit.
            torch._dynamo.config.recompile_limit = 64
            self._embed = torch.compile(self._embed, dynamic=False)
            self._loop = torch.compile(self._loop, dynamic=False)
            self._finish = torch.compile(self._finish, dynamic=False)
        self._passes: dict[int, BlockedPass] = {}
        self._began = time.monotonic()
        self._began_tokens = 0

    def resume(self) -> bool:
        """Continue from the saved state, if there is one."""
        path = self.folder / "state.safetensors"
        if not path.is_file():
            return False
        meta = self.optimiser.load(path)
        self.step, self.tokens = int(meta["step"]), int(meta["tokens"])
        self.digest, self.loss = meta["digest"], float(meta["loss"])
        self._began_tokens = self.tokens
        return True

    def save(self) -> None:
        """Write the state of the run, whole or not at all."""
        meta = {"step": str(self.step), "tokens": str(self.tokens)}
        meta |= {"digest": self.digest, "loss": repr(self.loss)}
        self.optimiser.save(self.folder / "state.safetensors", meta)

    def run(self, *, save_every: int = 250, report_every: int = 20) -> Trained:
        """Train to the recipe's last step."""
        while self.step < self.recipe.steps:
            self.advance()
            if self.step % report_every == 0:
                self.report(self._line())
            if self.step % save_every == 0:
                self.save()
                if self.watch is not None:
                    self.report(f"step {self.step}: {self.watch(self.snapshot())}")
        self.save()
        master = {name: tensor.detach() for name, tensor in self.optimiser.master.items()}
        return Trained(master, self.step, self.tokens, self.digest, self.loss)

    def snapshot(self) -> LoopedLM:
        """The model as it is now, its rounded weights in float32."""
        working = self.optimiser.working.items()
        return LoopedLM(self.model.config, {n: t.detach().float() for n, t in working})

    def advance(self) -> None:
        """One optimiser step."""
        phase = self.recipe.phase(self.step)
        batch = self._batch(phase.rows, phase.length)
        loss = self._loss(batch, draw_loops(self.recipe, self.step))
        torch.autograd.backward(loss)
        self.optimiser.apply(self.recipe.rate(self.step))
        value = float(loss.detach())
        self.loss = value if self.loss != self.loss else 0.98 * self.loss + 0.02 * value
        self.tokens += batch.inputs.numel()
        self.digest = hashlib.sha256((self.digest + batch.digest).encode()).hexdigest()
        self.step += 1

    def _batch(self, rows: int, length: int) -> Batch:
        ids, weights = self.source(self.step, rows, length)
        tokens = torch.tensor(ids, dtype=torch.int64)
        digest = hashlib.sha256(tokens.numpy().tobytes()).hexdigest()
        return Batch(tokens[:, :-1], tokens[:, 1:], torch.tensor(weights)[:, 1:], digest)

    def _loss(self, batch: Batch, loops: int) -> Tensor:
        """Weighted next-token loss in nats; gradients pass through the last loops only."""
        length = batch.inputs.shape[1]
        memory = self._passes.setdefault(length, BlockedPass(length))
        positions = torch.arange(length).unsqueeze(0)
        table = self.model.rope.at(positions)
        e = self._embed(batch.inputs, table, memory)
        # Every fourth step starts from zero, so that both start states are in distribution.
        kind = ZERO if self.step % 4 == 3 else KEYED
        x = self.model.start(kind, self.step, positions).expand_as(e).contiguous()
        free = max(0, loops - self.recipe.backprop_loops)
        with torch.no_grad():
            fixed = e.detach()
            for _ in range(free):
                x = self._loop(x, fixed, 1, table, memory)
        for _ in range(loops - free):
            x = self._loop(x, e, 1, table, memory)
        loss: Tensor = self._finish(self.model, x, table, memory, batch.targets, batch.weights)
        return loss

    def _line(self) -> str:
        seconds = time.monotonic() - self._began
        speed = (self.tokens - self._began_tokens) / max(seconds, 1e-9)
        left = self.recipe.steps - self.step
        per_step = self.tokens / max(self.step, 1)
        return (
            f"step {self.step}/{self.recipe.steps} loss {self.loss:.4f} tokens {self.tokens} "
            f"speed {speed:.0f}/s elapsed {seconds / 60:.1f} min "
            f"left {left * per_step / max(speed, 1e-9) / 60:.1f} min "
            f"gains {self.optimiser.smallest_core_gain():.3f}"
        )
