"""What an engine's own report proves: that it is pristine, or which patch runs in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.backends.sglang.arguments import OBSERVER, RIPE
from harness.backends.sglang.observer.watching import COUNTERS
from harness.backends.sglang.report import read_counters, read_facts

WORK = frozenset(COUNTERS)
"""Counters of the observer, which both arms have; all others are a patch's."""
_PATIENCE_S = 5.0
_OF_RIPE = (f"|{RIPE}", "attention backend ripe_", "harness.backends.sglang.ripe.")
_OWN = ("sglang.", "harness.backends.sglang.models.")


@dataclass(frozen=True)
class Evidence:
    """The facts that the observer and the patch wrote when the engine started."""

    facts: Sequence[Mapping[str, Any]]

    @property
    def observed(self) -> list[Mapping[str, Any]]:
        """The observer's facts, one per computing process."""
        return [fact for fact in self.facts if fact.get("plugin") == OBSERVER]

    @property
    def ripe(self) -> Mapping[str, Any] | None:
        """What the RIPE patch said when it took over, or None."""
        found = [fact["ripe"] for fact in self.facts if fact.get("plugin") == RIPE]
        return found[0] if found else None

    def foreign(self) -> list[str]:
        """Return everything in the engine that neither SGLang nor the two plugins put there."""
        found: list[str] = []
        for fact in self.observed:
            found += [hook for hook in fact.get("hooks", []) if not hook.endswith(f"|{OBSERVER}")]
            found += [f"attention backend {n}" for n in fact.get("foreign_attention_backends", [])]
            classes = {
                "attention backend": fact.get("attention_backend"),
                "pool": fact.get("pool", {}).get("class"),
                "model": fact.get("model"),
            }
            for name, path in classes.items():
                if path and not str(path).startswith(_OWN):
                    found.append(f"{name} {path}")
        known = _OF_RIPE if self.ripe is not None else ()
        return sorted({one for one in found if not any(sign in one for sign in known)})

    def pool(self) -> dict[str, int]:
        """Return bytes, tokens and page size of the KV pool, summed over computing processes."""
        pools = [fact["pool"] for fact in self.observed]
        return {
            "bytes": sum(int(pool["bytes"]) for pool in pools),
            "tokens": int(pools[0]["size"]) if pools else 0,
            "page_size": int(pools[0]["page_size"]) if pools else 1,
            "rows": int(pools[0]["rows"][0]) if pools and pools[0]["rows"] else 0,
        }


def evidence(report: Path) -> Evidence:
    """Return what an engine that is ready has reported.

    Raises:
        ValueError: nothing was reported: the observer did not load.
    """
    until = time.monotonic() + _PATIENCE_S
    while not (found := Evidence(read_facts(report))).observed:
        if time.monotonic() > until:
            raise ValueError(
                "the engine reports nothing: its plugin harness_observer did not load, so nothing "
                "proves what runs"
            )
        time.sleep(0.05)
    return found


class Counted:
    """Counters of an engine between two readings."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._before = read_counters(report)

    def moved(self) -> dict[str, int]:
        """Return how far every counter has moved."""
        now = read_counters(self._report)
        return {name: now[name] - self._before.get(name, 0) for name in sorted(now)}


def work_of(moved: Mapping[str, int]) -> dict[str, int]:
    """Return the observer's counters."""
    return {name: count for name, count in moved.items() if name in WORK}


def patch_of(moved: Mapping[str, int]) -> dict[str, int]:
    """Return the patch's counters."""
    return {name: count for name, count in moved.items() if name not in WORK}
