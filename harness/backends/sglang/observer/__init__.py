"""A plugin for both arms that changes nothing: it reports what the engine is and counts passes."""

from __future__ import annotations


def activate() -> None:
    """Entry point of group `sglang.srt.plugins`. Raises ReportError without a report folder."""
    from harness.backends.sglang.observer.watching import watch

    watch()
