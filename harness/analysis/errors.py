"""What can go wrong: bad data is an error, data that cannot answer is a result."""

from __future__ import annotations

from dataclasses import dataclass


class AnalysisError(ValueError):
    """The input cannot be analysed as given; one line says what was found and what is needed."""


@dataclass(frozen=True)
class NotEstimable:
    """The data are well formed, but nothing can be said; stands where a number would stand.

    A ledger turns it into `void`. It is never a NaN, a zero-width interval or p = 0.
    """

    reason: str
    """Lower case, without a full stop: what is missing."""

    def __str__(self) -> str:
        return f"not estimable: {self.reason}"
