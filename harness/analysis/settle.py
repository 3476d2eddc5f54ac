"""More draws when Monte-Carlo noise could decide: agreed beforehand, so it is no second look.

If an end of a bootstrap interval lies within three of its Monte-Carlo errors of the region's end,
the number of replicates is doubled by continuing the same stream, which only removes noise.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis.bootstrap import Bootstrap
from harness.analysis.errors import NotEstimable
from harness.analysis.resampling import DEFAULT_RESAMPLES
from harness.analysis.verdicts import Region

ERRORS = 3.0
DOUBLINGS = 5


def settled(result: Bootstrap, region: Region) -> bool:
    """Whether both ends lie further from the region's ends than three Monte-Carlo errors.

    An end whose error is unknown is not settled; an open end is.
    """
    pairs = (
        (result.interval.low, result.low_error),
        (result.interval.high, result.high_error),
    )
    edges = [edge for edge in (region.low, region.high) if edge is not None]
    return all(
        abs(end) == float("inf")
        or (error is not None and abs(end - edge) > ERRORS * error)
        or error == 0
        for end, error in pairs
        for edge in edges
    )


def until_settled(
    bootstrap: Callable[[int], Bootstrap | NotEstimable],
    region: Region,
    *,
    resamples: int = DEFAULT_RESAMPLES,
    doublings: int = DOUBLINGS,
) -> Bootstrap | NotEstimable:
    """Return `bootstrap(B)` with B = 9,999, 19,999, 39,999, … until it is settled, or the last.

    `bootstrap` maps a number of resamples to an interval, on one key.
    """
    result = bootstrap(resamples)
    for _ in range(doublings):
        if isinstance(result, NotEstimable) or settled(result, region):
            break
        resamples = 2 * (resamples + 1) - 1
        result = bootstrap(resamples)
    return result
