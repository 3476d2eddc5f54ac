"""Adjustments for many claims. A void prediction stays in its family and counts as p = 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.arrays import Floats, choice, floats, listed
from harness.analysis.errors import AnalysisError
from harness.analysis.precision import Level, level, round_twelve
from harness.analysis.verdicts import Word

PValues = Sequence[float | None]


def holm(p: PValues) -> tuple[float | None, ...]:
    """Return Holm's adjusted p-values (1979); None (void) counts in the family and stays None.

    >>> holm([0.01, None, 0.04])
    (0.03, None, 0.08)
    """
    p = listed(p, "p")
    values, order = _ordered(p)
    family = len(p)
    adjusted = np.maximum.accumulate(values[order] * (family - np.arange(len(order))))
    return _placed(p, order, np.minimum(adjusted, 1.0))


def benjamini_hochberg(p: PValues) -> tuple[float | None, ...]:
    """Return Benjamini & Hochberg's adjusted p-values (1995); None (void) counts in the family."""
    p = listed(p, "p")
    values, order = _ordered(p)
    scaled = values[order] * len(p) / np.arange(1, len(order) + 1)
    adjusted = np.minimum.accumulate(scaled[::-1])[::-1]
    return _placed(p, order, np.minimum(adjusted, 1.0))


def bonferroni_level(confidence: Level, claims: int) -> str:
    """Return the per-interval level 1 − α/m under which m intervals hold together, as a decimal."""
    if claims < 1:
        raise AnalysisError(f"claims: {claims} is not a family")
    return str(1 - (1 - level(confidence)) / claims)


def _ordered(p: PValues) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    if len(p) == 0:
        raise AnalysisError("p: the family is empty")
    values = floats([1.0 if one is None else one for one in p], "p")
    if np.any((values < 0) | (values > 1)):
        raise AnalysisError("p: needs values in [0, 1], or None for a void prediction")
    known = np.array([index for index, one in enumerate(p) if one is not None], dtype=np.intp)
    return values, known[np.argsort(values[known], kind="stable")]


def _placed(
    p: PValues, order: np.ndarray[tuple[int], np.dtype[np.intp]], adjusted: Floats
) -> tuple[float | None, ...]:
    found: list[float | None] = [None] * len(p)
    for index, value in zip(order, adjusted, strict=True):
        found[index] = round_twelve(float(value))
    return tuple(found)


@dataclass(frozen=True)
class SequenceStep:
    """One prediction of a fixed sequence."""

    word: Word
    """Its own verdict."""
    tested: bool
    """Whether everything before it held, so that its verdict may be claimed at the full level."""


def fixed_sequence(words: Sequence[Word]) -> tuple[SequenceStep, ...]:
    """Return which verdicts of a registered order may be claimed: up to the first not held.

    Quality first, then speed; no level is split. Later verdicts are reported, not claimed.
    """
    steps, open_ = [], True
    for word in listed(words, "words"):
        choice(word, ("held", "failed", "inconclusive", "void"), "words")
        steps.append(SequenceStep(word, open_))
        open_ = open_ and word == "held"
    return tuple(steps)
