"""What goes on inside a model: states by loop and layer, and what happens when planes are wrong.

Everything here runs whole texts and keeps what it sees; nothing here is on the path of decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.block import run_block
from harness.looped.errors import PolicyError
from harness.looped.model import CORE, LoopedLM, Memory, Table
from harness.looped.policies import Policy, full
from harness.looped.replaying import Passes, Planes, ReplayMemory, divergence
from harness.looped.start import ZERO, keyed_sums

# kind, loop (0 outside the core), layer, state [B, T, n] after that block
Watch = Callable[[str, int, int, Tensor], None]


class WatchedLM(LoopedLM):
    """The same model (tensors shared), which shows the state after every block."""

    def __init__(self, model: LoopedLM, watch: Watch) -> None:
        super().__init__(model.config, model.tensors)
        self._watch = watch

    def _run(self, kind: str, loop: int, x: Tensor, table: Table, memory: Memory) -> Tensor:
        for index, block in enumerate(self._blocks[kind]):
            attend = memory.attend(kind, index, loop)
            x = run_block(block, self.config, self.rope, x, table, attend)
            self._watch(kind, loop, index, x)
        return x


@dataclass(frozen=True, slots=True)
class Probed:
    """One text under one policy: logits, states and planes of every loop.

    logits [B, T, vocab]; states[kind, loop, layer] [B, T, n], after the block; planes[kind, loop,
    layer] keys and values [B, T, G, h], keys turned. Loops count from 1 in the core, 0 elsewhere.
    """

    logits: Tensor
    states: dict[tuple[str, int, int], Tensor]
    planes: Planes


@torch.inference_mode()
def probe(
    model: LoopedLM,
    ids: Tensor,
    *,
    policy: Policy | None = None,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
) -> Probed:
    """Read ids [B, T] token by token (or as fast as the policy allows) and keep everything."""
    rule = policy or full()
    rule.check(model.config)
    count = model.loops(loops)
    parts: dict[tuple[str, int, int], list[Tensor]] = {}

    def watch(kind: str, loop: int, layer: int, x: Tensor) -> None:
        parts.setdefault((kind, loop, layer), []).append(x)

    memory = ReplayMemory(rule, count)
    run = Passes(WatchedLM(model, watch), ids, count, start=start, seed=seed)
    logits = run.through(memory, rule, 0, ids.shape[1])
    states = {key: torch.cat(found, 1) for key, found in parts.items()}
    return Probed(logits, states, memory.planes)


@torch.inference_mode()
def perturbed(
    model: LoopedLM,
    ids: Tensor,
    *,
    planes: Collection[int],
    prefix: int,
    size: float,
    noise_seed: int,
    policy: Policy | None = None,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
) -> Tensor:
    """KL in nats, float64 [B, T - prefix], of reading on over a prefix whose planes are wrong.

    Keys and values of the given core planes at positions 0..prefix - 1 each get noise of `size`
    times their norm, in a direction drawn from the integers of `noise_seed`, so equal everywhere.
    Reference: the same policy over the planes as they were. Raises PolicyError for planes that do
    not exist or a prefix that leaves nothing to read.
    """
    rule = policy or full()
    rule.check(model.config)
    count = model.loops(loops)
    length = ids.shape[1]
    if not planes or min(planes) < 1 or max(planes) > count:
        raise PolicyError(f"planes: found {sorted(planes)}, expected some of 1..{count}")
    if not 1 <= prefix < length:
        raise PolicyError(f"prefix: found {prefix}, expected 1..{length - 1}")
    run = Passes(model, ids, count, start=start, seed=seed)
    memory = ReplayMemory(rule, count)
    run.through(memory, rule, 0, prefix)
    known = dict(memory.planes)
    expected = run.through(memory, rule, prefix, length)
    memory.planes = {
        key: _noisy(pair, key, size, noise_seed) if key[0] == CORE and key[1] in planes else pair
        for key, pair in known.items()
    }
    return divergence(expected, run.through(memory, rule, prefix, length))


def _noisy(
    pair: tuple[Tensor, Tensor], key: tuple[str, int, int], size: float, seed: int
) -> tuple[Tensor, Tensor]:
    _, loop, layer = key
    k, v = (
        _moved(x, size, ((seed * 4099 + loop) * 257 + layer) * 2 + i) for i, x in enumerate(pair)
    )
    return k, v


def _moved(x: Tensor, size: float, seed: int) -> Tensor:
    """x [B, T, G, h] plus noise of `size` times its norm at each position, over all heads."""
    flat = x.flatten(2)
    rows, length, width = flat.shape
    places = torch.arange(rows * length, device=x.device)
    noise = keyed_sums(seed % 2**63, places, width).to(flat.dtype).view(rows, length, width)
    scale = size * flat.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)
    moved: Tensor = (flat + scale * noise).view(x.shape)
    return moved
