"""What a pass costs: a fixed part per loop pass and a part per token and loop.

The regime decides what self-speculation can gain: where the fixed part dominates, verifying five
tokens costs little more than one, as on a GPU that waits for memory or launches.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from harness.measure.scored import Scored
from harness.store.canonical import Json

COUNTERS = ("passes", "draft_passes", "loop_passes", "token_loops")


@dataclass(frozen=True)
class CostModel:
    """Decode CPU time as a cost per pass, per loop of a pass, and per token and loop."""

    per_pass_us: float
    per_loop_pass_us: float
    per_token_loop_us: float
    r2: float
    visits: int

    def verify_ratio(self, batch: int, tokens: int, loops: int) -> float:
        """Cost of one pass of `tokens` tokens per row beside a pass of one, at this batch."""
        one = self._pass(batch, loops)
        return self._pass(batch * tokens, loops) / one if one else float("inf")

    def _pass(self, tokens: int, loops: int) -> float:
        return self.per_pass_us + loops * (self.per_loop_pass_us + tokens * self.per_token_loop_us)


def fit_cost(data: Scored, arms: Collection[str], blocks: Collection[int]) -> CostModel | None:
    """Fit the model by non-negative least squares over all timed visits of some arms.

    None where fewer than eight visits carry the counters, or they don't vary.
    """
    rows = [
        _row(visit)
        for arm in arms
        for visit in data.visits_of(arm, blocks)
        if "loop_passes" in visit.get("counters", {})
    ]
    if len(rows) < 8:
        return None
    table = np.array(rows, dtype=np.float64)
    design, seconds = table[:, :3], table[:, 3]
    if np.linalg.matrix_rank(design) < 3:
        return None
    weights = 1 / seconds  # relative errors: a slow arm must not drown a fast one
    solution, _ = nnls(design * weights[:, None], np.ones(len(rows)))
    residual = seconds - design @ solution
    spread = float(np.sum((seconds - seconds.mean()) ** 2))
    r2 = 1 - float(residual @ residual) / spread if spread else 0.0
    per_pass, per_loop, per_token = (float(value) * 1e6 for value in solution)
    return CostModel(per_pass, per_loop, per_token, r2, len(rows))


def _row(visit: Json) -> tuple[float, float, float, float]:
    counters = visit["counters"]
    passes = counters["passes"] + counters.get("draft_passes", 0)
    seconds = int(visit["timing"]["decode_cpu_ns"]) / 1e9
    return passes, counters["loop_passes"], counters["token_loops"], seconds
