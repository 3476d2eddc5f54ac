"""Every key of a plan says what it means."""

from __future__ import annotations

from harness.cli.explain import keys
from harness.plan.schema import Plan


def test_every_key_has_a_meaning() -> None:
    silent = [name for name, text in keys(Plan) if not text or text.startswith("(")]
    assert not silent
