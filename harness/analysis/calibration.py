"""How good the authors' own forecasts were: Brier score of "P(held)" against what was decided.

Failed and inconclusive predictions score as not held; void ones are listed apart and score nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import choice, floats, listed, same_length
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.precision import Level
from harness.analysis.proportions import wilson_interval
from harness.analysis.results import Interval
from harness.analysis.verdicts import Word

WORDS: tuple[Word, ...] = ("held", "failed", "inconclusive", "void")


@dataclass(frozen=True)
class ForecastBin:
    """Forecasts of similar confidence."""

    low: float
    high: float
    forecasts: int
    mean_confidence: float
    held: Interval | NotEstimable
    """Wilson interval of the share held."""


@dataclass(frozen=True)
class Calibration:
    """Forecasts against verdicts."""

    brier: float | NotEstimable
    """Mean (confidence − held)²: 0 is perfect, 0.25 what always saying ½ earns (Brier 1950)."""
    reference: float | NotEstimable
    """Brier score of always forecasting the observed share."""
    mean_confidence: float | NotEstimable
    held: Interval | NotEstimable
    """Wilson interval of the share held, among the scored."""
    bins: tuple[ForecastBin, ...]
    tally: tuple[tuple[Word, int], ...]


def brier(
    confidences: npt.ArrayLike,
    words: Sequence[Word],
    *,
    confidence: Level = "0.95",
    bins: int = 5,
) -> Calibration:
    """Return the calibration of forecasts in [0, 1] (shape (n,)) against n verdicts.

    Predictions of one study depend on each other, so no significance is claimed.
    """
    words = listed(words, "words")
    for word in words:
        choice(word, WORDS, "words")
    forecast = floats(confidences, "confidences")
    same_length(confidences=forecast, words=np.asarray(words))
    if np.any((forecast < 0) | (forecast > 1)):
        raise AnalysisError("confidences: needs probabilities in [0, 1]")
    if not 1 <= bins <= 100:
        raise AnalysisError(f"bins: {bins} is outside 1 … 100")
    scored = np.array([word != "void" for word in words])
    held = np.array([word == "held" for word in words])[scored]
    forecast = forecast[scored]
    tally = tuple((word, sum(one == word for one in words)) for word in WORDS)
    share = wilson_interval(int(held.sum()), len(held), confidence)
    if len(held) == 0:
        nothing = NotEstimable("every prediction is void")
        return Calibration(nothing, nothing, nothing, share, (), tally)
    base = float(held.mean())
    return Calibration(
        float(((forecast - held) ** 2).mean()),
        base * (1 - base),
        float(forecast.mean()),
        share,
        _binned(forecast, held, bins, confidence),
        tally,
    )


def _binned(
    forecast: npt.NDArray[np.float64], held: npt.NDArray[np.bool_], bins: int, confidence: Level
) -> tuple[ForecastBin, ...]:
    place = np.minimum((forecast * bins).astype(np.int64), bins - 1)
    found = []
    for index in np.unique(place):
        here = place == index
        found.append(
            ForecastBin(
                float(index) / bins,
                float(index + 1) / bins,
                int(here.sum()),
                float(forecast[here].mean()),
                wilson_interval(int(held[here].sum()), int(here.sum()), confidence),
            )
        )
    return tuple(found)
