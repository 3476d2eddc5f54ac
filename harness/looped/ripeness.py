"""Does the deepest plane suffice for a model at its depth, and if not, how long a window does?

Three measurements, each with its yardstick in the same units:

- distances: every plane from the settled one (recorded at 2R), in float32; and the floor below
  which bfloat16 cannot see, how far its arithmetic moves plane R.
- divergence: KL of each policy from the full cache in float32, in nats; and what bfloat16
  arithmetic alone does to the full cache.
- among planes the last quarter of the loops decides, because errors in planes that are read early
  are forgotten by the loops that follow.

Both yardsticks compare bfloat16 with float32 arithmetic over the same rounded weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.looped.errors import LoopedError
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, ripe
from harness.looped.replaying import SEQUENTIAL, divergence, policy_logits
from harness.looped.ripening import Recorder, Ripening, fit_ripening, plane_distances
from harness.looped.start import KEYED

WINDOWS = (0, 1, 2, 4, 8, 16, 32, 64)
_HIGH = 0.99
_LARGE_KL = 0.1


@dataclass(frozen=True, slots=True)
class Divergence:
    """KL from the float32 full cache over all positions, in nats.

    `top_share` is the part of the sum that the top 1 % of positions carry; `large` counts the
    positions above 0.1.
    """

    mean: float
    high: float
    largest: float
    top_share: float
    large: int


@dataclass(frozen=True, slots=True)
class Ripeness:
    """The measurements by loop (from 1) and by window, and what follows from them.

    `window` is the smallest one whose mean and 99 % quantile of KL lie within what bfloat16
    rounding alone does; None when none of those tried does. `late` is the largest median distance
    in the last quarter of the loops before R.
    """

    loops: int
    positions: int
    medians: tuple[float, ...]
    highs: tuple[float, ...]
    floor: float
    late: float
    fit: Ripening | None
    rounding: Divergence
    by_window: dict[int, Divergence]
    window: int | None

    @property
    def planes_ripe(self) -> bool:
        """Whether bfloat16 could not tell the late planes from the settled one."""
        return self.late <= self.floor

    @property
    def deepest_suffices(self) -> bool:
        """Whether the deepest plane changes less than rounding does."""
        return self.window == 0


@torch.inference_mode()
def measure_ripeness(
    model: LoopedLM,
    ids: Tensor,
    *,
    loops: int | None = None,
    windows: Sequence[int] = WINDOWS,
    mode: str = SEQUENTIAL,
    start: str = KEYED,
    seed: int = 0,
) -> Ripeness:
    """Measure a float32 model on texts ids [B, T], all of one length.

    `mode` is the replay's semantics: 'sequential' is what decoding would do, 'one_pass' the direct
    effect only, and much faster. Raises LoopedError for another dtype, and when the windows don't
    begin with 0.
    """
    count = model.loops(loops)
    if model.dtype != torch.float32:
        raise LoopedError(f"ripeness: found a {model.dtype} model, expected float32")
    if list(windows) != sorted(set(windows)) or not windows or windows[0] != 0:
        raise LoopedError(f"windows: found {list(windows)}, expected a rising row from 0")
    distances = plane_distances(model, ids, count, start=start, seed=seed)
    medians, highs = (distances.quantile(q, 1).tolist() for q in (0.5, _HIGH))
    expected = model.forward(ids, loops=count, start=start, seed=seed)
    floor, rounding = _rounding(model, ids, count, start, seed)

    def under(policy: Policy) -> Divergence:
        found = policy_logits(
            model, ids, policy=policy, mode=mode, loops=count, start=start, seed=seed
        )
        return _summary(expected, found)

    # A window over the whole text is the full cache, and says nothing.
    tried = [window for window in windows if window < ids.shape[1] - 1] or [0]
    by_window = {window: under(ripe(window)) for window in tried}
    fits = [w for w, d in by_window.items() if d.mean <= rounding.mean and d.high <= rounding.high]
    return Ripeness(
        loops=count,
        positions=ids.numel(),
        medians=tuple(medians),
        highs=tuple(highs),
        floor=floor,
        late=max(medians[_late_from(count) - 1 : max(count - 1, 1)]),
        fit=_fit(distances),
        rounding=rounding,
        by_window=by_window,
        window=min(fits, default=None),
    )


def _late_from(loops: int) -> int:
    """The first loop of the last quarter, R itself not among those counted."""
    return max(1, loops - max(1, loops // 4))


def _rounding(
    model: LoopedLM, ids: Tensor, loops: int, start: str, seed: int
) -> tuple[float, Divergence]:
    """What bfloat16 arithmetic does to plane R (median relative distance) and to the logits."""
    narrow = {name: tensor.bfloat16() for name, tensor in model.tensors.items()}
    wide = {name: tensor.float() for name, tensor in narrow.items()}
    positions = torch.arange(ids.shape[1], device=model.device).unsqueeze(0)
    logits, planes = [], []
    for tensors in (wide, narrow):
        other, recorder = LoopedLM(model.config, tensors), Recorder()
        state = other.start(start, seed, positions)
        logits.append(other.run(ids, positions, loops, state, recorder))
        planes.append([plane.double() for plane in recorder.planes[-1]])
    layers = [(a - b).norm(dim=-1) / a.norm(dim=-1) for a, b in zip(*planes, strict=True)]
    return float(torch.stack(layers).mean(0).median()), _summary(*logits)


def _fit(distances: Tensor) -> Ripening | None:
    """The rate over the loops after the fourth (or the first few), where enough are left."""
    for first in (4, 2, 1):
        try:
            return fit_ripening(distances, first=first)
        except LoopedError:
            continue
    return None


def _summary(expected: Tensor, found: Tensor) -> Divergence:
    kl = divergence(expected, found).flatten()
    count = max(1, kl.numel() // 100)
    total = float(kl.sum())
    return Divergence(
        mean=float(kl.mean()),
        high=float(kl.quantile(_HIGH)),
        largest=float(kl.max()),
        top_share=float(kl.topk(count).values.sum()) / total if total > 0 else 0.0,
        large=int((kl > _LARGE_KL).sum()),
    )
