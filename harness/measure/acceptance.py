"""How drafts fare, place by place, and how many tokens a verification should then yield."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.store.canonical import Json

T = TypeVar("T", float, npt.NDArray[np.float64])


def places(trials: Iterable[Json]) -> dict[int, dict[str, int]]:
    """Return drafts tried and kept at each place 1, 2, … γ, summed over trials."""
    found: dict[int, dict[str, int]] = {}
    for trial in trials:
        for name, value in trial["counters"].items():
            word, _, place = name.partition("_")
            if word in ("tried", "kept") and place.isdigit():
                entry = found.setdefault(int(place), {"tried": 0, "kept": 0})
                entry[word] += int(value)
    return dict(sorted(found.items()))


def predicted_tokens(acceptance: T, drafts: int) -> T:
    """Return τ = 1 + α + … + α^γ, the tokens per verification if drafts are kept independently.

    Leviathan, Kalman & Matias 2023, (1 − α^(γ+1))/(1 − α), written so that α = 1 is no exception.
    """
    total = acceptance * 0.0 + 1.0
    for power in range(1, drafts + 1):
        total = total + acceptance**power
    return total
