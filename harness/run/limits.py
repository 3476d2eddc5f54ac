"""Frozen limits on what happened in a visit: crossing one voids its block, by rule."""

from __future__ import annotations

from harness.plan.schema import Limits
from harness.run.state import RunState
from harness.run.telemetry import Sampler
from harness.run.visits import Assignment, Measured
from harness.store.errors import NotReadyError

CLOCKS = ("gpu_sm_mhz", "cpu_mhz")


def cache_problem(limits: Limits, assignment: Assignment, measured: Measured) -> str | None:
    """Return why the caches spoil a visit, or None."""
    if measured.entries_before:
        return f"the cache held {measured.entries_before} entries after its reset"
    share = measured.hits / len(assignment.items)
    if share > limits.cache_hit_share:
        return f"cache hit share {share:.3g} is above the limit {limits.cache_hit_share:g}"
    return None


def machine_problem(limits: Limits, state: RunState, measured: Measured) -> str | None:
    """Return why the machine spoils a timed visit; clocks are held to the highest of the run."""
    load, allowed = measured.load, limits.clock_drop
    for name in CLOCKS if allowed is not None else ():
        clock, highest = load.get(name), state.clocks.get(name)
        if (
            allowed is not None
            and clock is not None
            and highest
            and clock < (1 - allowed) * highest
        ):
            return (
                f"{name} fell to {clock:.0f}, {1 - clock / highest:.1%} below the run's highest "
                f"{highest:.0f}; the limit is {allowed:.1%}"
            )
    foreign = load.get("gpu_foreign_processes", load.get("foreign_load"))
    if limits.foreign_load is not None and foreign is not None and foreign > limits.foreign_load:
        return f"foreign load {foreign:.2f} is above the limit {limits.foreign_load:g}"
    return None


def check_tellable(limits: Limits, sampler: Sampler | None) -> None:
    """Check that this machine tells what the limits are about.

    Raises:
        NotReadyError: it does not, so that a limit would never void anything.
    """
    reading = sampler() if sampler is not None else {}
    if limits.clock_drop is not None and not any(name in reading for name in CLOCKS):
        raise NotReadyError(
            "limits.clock_drop: this machine does not tell its clock; leave the limit out, or run "
            "where it is told"
        )
