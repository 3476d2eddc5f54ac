"""A patched arm proves that its patch runs, and a pristine one that it is pristine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.plan.schema import ArmSpec
from harness.run.privacy import scrub
from harness.run.seats import Live
from harness.store.errors import RefusedError

TOLERANCE = 1e-5
"""Of a probe's log-probs; a patch that shows there differs by more than ten times this."""


def prove_launch(
    arm: ArmSpec, live: Live, pristine: Sequence[float] | None, own: Sequence[float] | None
) -> None:
    """Check a worker before its first visit.

    `pristine` and `own` are the log-probs that the first worker of pristine and of this arm showed.

    Raises:
        RefusedError: a pristine arm claims a patch, a patched arm shows none, or an arm's probe is
        not what its first worker showed.
    """
    name, moved = live.seat.arm, any(_counters(live.probe).values())
    shown = live.probe.get("fingerprint")
    if not _is_fingerprint(shown):
        raise RefusedError(f"arms.{name}: probe: fingerprint is not a list of numbers")
    if differs(shown, own):
        raise RefusedError(
            f"arms.{name}: its probe gives other log-probs than its first worker's in this run; "
            "make the engine deterministic, or look for what changed underneath it"
        )
    if arm.role == "pristine" and (live.claims or moved):
        raise RefusedError(
            f"arms.{name}: is pristine but shows a patch{_named(live)}; run unpatched code"
        )
    if arm.role == "patched" and not (live.claims or moved or differs(shown, pristine)):
        raise RefusedError(
            f"arms.{name}: is patched but shows no patch: its probe equals pristine's and its "
            "worker claims none; activate the patch or let it count its calls"
        )


def visit_problem(arm: ArmSpec, live: Live, patch_counters: Mapping[str, int]) -> str | None:
    """Return why a visit refutes what its arm claims, or None."""
    moved = any(patch_counters.values())
    if arm.role == "pristine" and moved:
        return f"arms.{live.seat.arm}: patch counters moved in a pristine visit"
    if arm.role == "patched" and live.claims and not moved:
        return (
            f"arms.{live.seat.arm}: the patch was not active: its counters stood still in a visit"
        )
    return None


def differs(found: object, pristine: Sequence[float] | None) -> bool:
    """Whether two fingerprints differ by more than ten times the tolerance."""
    if not isinstance(found, list) or pristine is None:
        return False
    if len(found) != len(pristine):
        return True
    return any(abs(a - b) > 10 * TOLERANCE for a, b in zip(found, pristine, strict=True))


def _named(live: Live) -> str:
    """What the worker says that it found, for a message."""
    patch = live.hello.get("patch")
    name = patch.get("name") if isinstance(patch, dict) else None
    return f" ({scrub(str(name))})" if name else ""


def _is_fingerprint(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in value
    )


def _counters(probe: Mapping[str, object]) -> Mapping[str, object]:
    counters = probe.get("counters")
    return counters if isinstance(counters, dict) else {}
