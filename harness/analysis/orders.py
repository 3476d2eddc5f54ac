"""Orders of visits that keep drift out of the comparison: ABBA/BAAB, Thue–Morse, Williams.

ABBA cancels linear drift; ABBA on half of the blocks and BAAB on the other half cancels any shape
of drift that the blocks share; Thue–Morse of eight visits also cancels quadratic drift within a
block. Williams squares (1949) do it for more arms: each arm once in every position, each ordered
pair of neighbours equally often, so that first-order carry-over is balanced as well. Unequal
carry-over survives every order (ABBA with BAAB leaves a quarter of the difference): reset the state
between visits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import floats, whole
from harness.analysis.errors import AnalysisError
from harness.analysis.resampling import raw_words

Order = tuple[int, ...]
"""Arms by number, in the order of their visits: (0, 1, 1, 0) is ABBA."""

MAX_VISITS = 1 << 24

ABBA: Order = (0, 1, 1, 0)
BAAB: Order = (1, 0, 0, 1)


def shuffled(key: bytes, size: int) -> tuple[int, ...]:
    """Return a permutation of 0 … size − 1 that the key alone determines (by sorting raw words)."""
    words = raw_words(key, 0, size)
    return tuple(int(index) for index in np.argsort(words, kind="stable"))


def abba_baab(key: bytes, blocks: int) -> tuple[Order, ...]:
    """Return one order per block: half ABBA, half BAAB (odd: one ABBA more), at seeded places."""
    whole(blocks, "blocks", 1, MAX_VISITS)
    places = shuffled(key, blocks)
    return tuple(ABBA if place < (blocks + 1) // 2 else BAAB for place in places)


def thue_morse(visits: int) -> Order:
    """Return the Thue–Morse order of two arms; 8 gives ABBABAAB.

    >>> thue_morse(8)
    (0, 1, 1, 0, 1, 0, 0, 1)
    """
    whole(visits, "visits", 1, MAX_VISITS)
    return tuple(index.bit_count() % 2 for index in range(visits))


def williams(arms: int) -> tuple[Order, ...]:
    """Return the rows of one Williams square (even number of arms) or two (odd).

    >>> williams(4)[0]
    (0, 1, 3, 2)
    """
    whole(arms, "arms", 2, 64)
    zigzag = [
        (index + 1) // 2 if index % 2 else (arms - index // 2) % arms for index in range(arms)
    ]
    square = [tuple((step + shift) % arms for step in zigzag) for shift in range(arms)]
    return tuple(square) if arms % 2 == 0 else tuple(square + [row[::-1] for row in square])


def williams_orders(key: bytes, arms: int, blocks: int) -> tuple[Order, ...]:
    """Return one order per block, every row of the squares equally often (±1), at seeded places."""
    rows = williams(arms)
    whole(blocks, "blocks", 1, MAX_VISITS)
    places = shuffled(key, blocks)
    return tuple(rows[place % len(rows)] for place in places)


def order_bias(orders: Sequence[Order], position_effect: npt.ArrayLike) -> float:
    """Return what a common effect of position adds to mean B − mean A, for orders of two arms.

    >>> order_bias([(0, 0, 1, 1)], [0, 1, 2, 3])
    2.0
    """
    effect = floats(position_effect, "position_effect")
    return _arm_gap([(order, effect) for order in orders])


def carry_over_bias(orders: Sequence[Order], carry_a: float, carry_b: float) -> float:
    """Return what first-order carry-over adds to mean B − mean A.

    A visit gains `carry_a` if it follows a visit of A, `carry_b` if it follows one of B.
    """
    carry = (carry_a, carry_b)
    return _arm_gap(
        [(order, np.array([0.0, *(carry[arm] for arm in order[:-1])])) for order in orders]
    )


def _arm_gap(visits: Sequence[tuple[Order, npt.NDArray[np.float64]]]) -> float:
    gaps = []
    for order, effect in visits:
        arms = np.array(order)
        if len(arms) != len(effect) or set(order) != {0, 1}:
            raise AnalysisError("orders: each needs both arms 0 and 1 and one effect per visit")
        gaps.append(float(effect[arms == 1].mean() - effect[arms == 0].mean()))
    if not gaps:
        raise AnalysisError("orders: is empty")
    return float(np.mean(gaps))
