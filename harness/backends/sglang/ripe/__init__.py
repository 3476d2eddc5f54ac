"""RIPE inside SGLang, as a plugin: ring rows behind the pool's rows, and a slot table per loop."""

from __future__ import annotations


def activate() -> None:
    """Entry point of group `sglang.srt.plugins`; what is wrong is said when the engine starts."""
    from harness.backends.sglang.ripe.plugin import install

    install()
