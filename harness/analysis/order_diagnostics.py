"""What the order of visits did: drift, first-run effect and carry-over, always printed.

The model is y = block + arm + drift·position + first·[position 0] + carry·[arm before], by least
squares on values centred within their block; each coefficient is then a ratio of per-block sums
(Frisch–Waugh– Lovell), with a CR2 interval over blocks. Log the times first where the estimand is a
log ratio: drift must be looked at on the scale on which it is to cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers, counts, floats, same_length
from harness.analysis.clusters import Clusters, clusters_of
from harness.analysis.cr2 import cr2_interval
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.labels import Labels
from harness.analysis.precision import Level
from harness.analysis.results import Interval

Diagnostic = Interval | NotEstimable

_EFFECTS = ("arm", "drift", "first", "carry")
_WITHOUT_CARRY = ("arm", "drift", "first")


@dataclass(frozen=True)
class OrderDiagnostics:
    """Nuisance effects of the order, on the scale of the values given."""

    drift: Diagnostic
    """Change per position."""
    first_run: Diagnostic
    """What the first visit of a block adds beyond drift."""
    carry_over: tuple[Diagnostic, ...]
    """For arm 1, 2, …: a visit after that arm minus a visit after arm 0."""
    blocks: int
    visits: int


@dataclass(frozen=True)
class Visits:
    """One value per visit, checked."""

    block: Clusters
    position: Integers
    """0, 1, … within its block."""
    arm: Integers
    value: Floats


def visits_of(
    block: Labels, position: npt.ArrayLike, arm: npt.ArrayLike, value: npt.ArrayLike
) -> Visits:
    """Return checked visits: within every block the positions are 0 … k − 1, each once."""
    found = Visits(
        clusters_of(block), counts(position, "position"), counts(arm, "arm"), floats(value, "value")
    )
    same_length(block=found.block.codes, position=found.position, arm=found.arm, value=found.value)
    order = np.lexsort((found.position, found.block.codes))
    starts = np.cumsum(found.block.sizes) - found.block.sizes
    expected = np.arange(len(order)) - np.repeat(starts, found.block.sizes)
    if not np.array_equal(found.position[order], expected):
        raise AnalysisError("position: every block needs 0, 1, … each once")
    if int(found.arm.max()) > 64:
        raise AnalysisError("arm: number the arms 0, 1, …")
    return Visits(
        Clusters(found.block.labels, found.block.codes[order], found.block.sizes),
        found.position[order],
        found.arm[order],
        found.value[order],
    )


def order_diagnostics(
    block: Labels,
    position: npt.ArrayLike,
    arm: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    confidence: Level = "0.95",
) -> OrderDiagnostics:
    """Return drift, first-run and carry-over effects from one value per visit (shape (visits,)).

    Arms are 0, 1, …. Each effect is given all others; drift and first run leave carry-over out
    where the order cannot tell it apart (pure ABBA). What is confounded even then is not estimable.
    """
    visits = visits_of(block, position, arm, value)
    arms = int(visits.arm.max()) + 1
    columns = _columns(visits, arms)
    drift, first = (
        _first_estimable(visits, columns, name, (_EFFECTS, _WITHOUT_CARRY), confidence)
        for name in ("drift", "first")
    )
    carry = tuple(
        _partial(visits, columns, f"carry{other}", _EFFECTS, confidence) for other in range(1, arms)
    )
    return OrderDiagnostics(drift, first, carry, len(visits.block), len(visits.value))


def _columns(visits: Visits, arms: int) -> dict[str, Floats]:
    first = visits.position == 0
    before = np.where(first, -1, np.concatenate([[-1], visits.arm[:-1]]))
    found = {f"arm{one}": (visits.arm == one).astype(np.float64) for one in range(1, arms)}
    found["drift"] = visits.position.astype(np.float64)
    found["first"] = first.astype(np.float64)
    for one in range(1, arms):
        found[f"carry{one}"] = (before == one).astype(np.float64)
    return found


def _first_estimable(
    visits: Visits,
    columns: dict[str, Floats],
    name: str,
    models: tuple[tuple[str, ...], ...],
    confidence: Level,
) -> Diagnostic:
    """Return the coefficient in the fullest model in which the order can tell it apart."""
    found: Diagnostic = NotEstimable("no model was asked for")
    for given in models:
        found = _partial(visits, columns, name, given, confidence)
        if isinstance(found, Interval):
            break
    return found


def _partial(
    visits: Visits, columns: dict[str, Floats], name: str, given: tuple[str, ...], confidence: Level
) -> Diagnostic:
    """Return the coefficient of one column, given the columns whose names start with `given`."""
    others = [
        _centred(visits.block, column)
        for other, column in columns.items()
        if other != name and other.startswith(given)
    ]
    target = _centred(visits.block, columns[name])
    before = float(target @ target)
    if others:
        target = _residual(np.stack(others, axis=1), target)
    after = float(target @ target)
    if before == 0 or after <= 1e-9 * before:
        return NotEstimable("the order confounds it with another effect")
    sums = [
        np.bincount(visits.block.codes, weights=column, minlength=len(visits.block))
        for column in (target * _response(visits, others), target * target)
    ]
    return cr2_interval(sums[0], sums[1], confidence=confidence)


def _response(visits: Visits, others: list[Floats]) -> Floats:
    """Return the values with blocks and the other columns taken out."""
    centred = _centred(visits.block, visits.value)
    return _residual(np.stack(others, axis=1), centred) if others else centred


def _centred(block: Clusters, column: Floats) -> Floats:
    means = np.bincount(block.codes, weights=column, minlength=len(block)) / block.sizes
    return column - means[block.codes]


def _residual(design: Floats, target: Floats) -> Floats:
    coefficients = np.linalg.lstsq(design, target, rcond=1e-10)[0]
    return target - design @ coefficients


@dataclass(frozen=True)
class Regression:
    """Ordinary least squares of one short series on arm and position."""

    intercept: float
    arm: float
    drift: float
    arm_error: float
    """Standard error of the arm effect, on k − 3 degrees of freedom."""


def arm_and_drift(arm: npt.ArrayLike, value: npt.ArrayLike) -> Regression | NotEstimable:
    """Return y = intercept + arm·[arm 1] + drift·position for the visits of one block, in order.

    Descriptive: errors for decisions come from blocks, not from visits.
    """
    arms, values = counts(arm, "arm"), floats(value, "value")
    size = same_length(arm=arms, value=values)
    if set(arms.tolist()) != {0, 1}:
        raise AnalysisError("arm: needs visits of both arms 0 and 1")
    design = np.stack(
        [np.ones(size), arms.astype(np.float64), np.arange(size, dtype=float)], axis=1
    )
    if size < 4 or np.linalg.matrix_rank(design) < 3:
        return NotEstimable("the order confounds arm and drift")
    coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
    rest = values - design @ coefficients
    covariance = np.linalg.inv(design.T @ design) * float(rest @ rest) / (size - 3)
    intercept, effect, drift = (float(x) for x in coefficients)
    return Regression(intercept, effect, drift, float(np.sqrt(covariance[1, 1])))
