"""What a pass costs: a fixed part per pass, a part per loop of it, and a part per token and loop.

The regime decides what self-speculation can gain: where the fixed part dominates, verifying five
tokens costs little more than one, as on a GPU that waits for memory or launches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from harness.analysis.arrays import floats, same_length
from harness.analysis.errors import AnalysisError, NotEstimable

MIN_VISITS = 8


@dataclass(frozen=True)
class PassCost:
    """Time as a cost per pass, per loop of a pass, and per token and loop, in microseconds."""

    per_pass_us: float
    per_loop_pass_us: float
    per_token_loop_us: float
    r2: float
    """Share of the variance of the visits' seconds that the three parts explain."""
    visits: int

    def verify_ratio(self, batch: int, tokens: int, loops: int) -> float:
        """Cost of one pass of `tokens` tokens per row beside a pass of one, at this batch."""
        one = self._pass(batch, loops)
        return self._pass(batch * tokens, loops) / one if one else float("inf")

    def _pass(self, tokens: int, loops: int) -> float:
        return self.per_pass_us + loops * (self.per_loop_pass_us + tokens * self.per_token_loop_us)


def pass_cost(
    passes: npt.ArrayLike,
    loop_passes: npt.ArrayLike,
    token_loops: npt.ArrayLike,
    seconds: npt.ArrayLike,
) -> PassCost | NotEstimable:
    """Fit the three parts to counted work and measured seconds, one entry per visit.

    Non-negative least squares of relative errors: a slow arm must not drown a fast one.

    >>> work = [1, 2, 1, 2, 3, 4, 3, 4], [1, 4, 2, 2, 9, 4, 6, 8], [4, 8, 9, 6, 20, 30, 10, 8]
    >>> seconds = [1e-6 * (5 * a + 20 * b + 3 * c) for a, b, c in zip(*work)]
    >>> round(pass_cost(*work, seconds).per_loop_pass_us, 6)
    20.0
    """
    parts = {"passes": passes, "loop_passes": loop_passes, "token_loops": token_loops}
    work = {name: floats(values, name) for name, values in parts.items()}
    spent = floats(seconds, "seconds")
    visits = same_length(**work, seconds=spent)
    if any(np.any(values < 0) for values in (*work.values(), spent)):
        raise AnalysisError("counted work and seconds can't be below 0")
    design = np.stack(list(work.values()), axis=1)
    if visits < MIN_VISITS:
        return NotEstimable(f"{visits} visits, needs {MIN_VISITS}")
    if np.any(spent == 0):
        return NotEstimable("a visit took no time that the clock could tell")
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return NotEstimable("the counted work doesn't vary enough to tell the parts apart")
    weights = 1 / spent
    solution, _ = nnls(design * weights[:, None], np.ones(visits))
    residual = spent - design @ solution
    spread = float(np.sum((spent - spent.mean()) ** 2))
    r2 = 1 - float(residual @ residual) / spread if spread else 0.0
    per_pass, per_loop, per_token = (float(value) * 1e6 for value in solution)
    return PassCost(per_pass, per_loop, per_token, r2, visits)
