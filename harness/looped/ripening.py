"""How fast the core's keys and values settle from loop to loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.block import Attend, causal_attention
from harness.looped.errors import LoopedError
from harness.looped.model import CORE, LoopedLM
from harness.looped.start import ZERO

_SETTLED_FROM = 8


class Recorder:
    """Causal attention that keeps the core's keys and values of every loop and layer.

    `planes[loop - 1][layer]` is [B, T, 2 * G * h], keys before values.
    """

    def __init__(self) -> None:
        self.planes: list[list[Tensor]] = []

    def attend(self, kind: str, layer: int, loop: int) -> Attend:
        """The attention of one layer."""
        if kind != CORE:
            return causal_attention
        if layer == 0:
            self.planes.append([])

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.planes[loop - 1].append(torch.cat([k.flatten(-2), v.flatten(-2)], -1))
            return causal_attention(q, k, v)

        return call


@torch.inference_mode()
def plane_distances(
    model: LoopedLM, ids: Tensor, loops: int, *, start: str = ZERO, seed: int = 0
) -> Tensor:
    """Relative distance of every plane from the settled one, [loops, B * T], float64.

    ids [B, T]. The settled plane is that of loop 2 * loops, because distances to plane R itself
    bend down near R. Keys and values count alike; core layers are averaged.
    """
    recorder = Recorder()
    length = ids.shape[1]
    positions = torch.arange(length, device=model.device).unsqueeze(0)
    state = model.start(start, seed, positions)
    model.run(ids, positions, 2 * loops, state, recorder)
    settled = [plane.double() for plane in recorder.planes[-1]]
    distances = []
    for planes in recorder.planes[:loops]:
        pairs = zip(planes, settled, strict=True)
        layers = [(p.double() - s).norm(dim=-1) / s.norm(dim=-1) for p, s in pairs]
        distances.append(torch.stack(layers).mean(0).flatten())
    return torch.stack(distances)


@dataclass(frozen=True, slots=True)
class Ripening:
    """A fit c * rho**r of the median distance over loops first..last (both included)."""

    rho: float
    scale: float
    first: int
    last: int
    medians: tuple[float, ...]


def fit_ripening(
    distances: Tensor, *, first: int = 4, until: int | None = None, floor: float = 2e-6
) -> Ripening:
    """Least squares on the logarithm of the medians, from loop `first` down to the floor.

    distances: [loops, positions]; loops after `until` are left out. `floor` should lie above the
    rounding noise of the model's dtype. Raises LoopedError when fewer than three loops are left.
    """
    medians = [float(m) for m in distances.median(1).values]
    last, end = first - 1, len(medians) if until is None else until
    while last < end and medians[last] > floor:
        last += 1
    if last - first + 1 < 3:
        raise LoopedError(
            f"ripening: found {max(0, last - first + 1)} loops above {floor} from loop {first} on, "
            "expected at least 3; start earlier"
        )
    loops = torch.arange(first, last + 1, dtype=torch.float64)
    logs = torch.tensor([math.log(m) for m in medians[first - 1 : last]], dtype=torch.float64)
    slope = float(((loops - loops.mean()) * (logs - logs.mean())).sum() / loops.var(correction=0))
    slope /= len(loops)
    scale = math.exp(float(logs.mean()) - slope * float(loops.mean()))
    return Ripening(math.exp(slope), scale, first, last, tuple(medians))


def fit_whole(distances: Tensor) -> Ripening:
    """The rate over loops 8 to R - 1, or from loop 4 down to the floor where that comes earlier.

    distances: [R, positions]. A slow loop is above the floor to its end; the usual range leaves
    its first loops out, which settle faster. Raises LoopedError as `fit_ripening` does.
    """
    until = len(distances) - 1
    if until > _SETTLED_FROM:
        slow = fit_ripening(distances, first=_SETTLED_FROM, until=until)
        if slow.last == until:
            return slow
    return fit_ripening(distances)
