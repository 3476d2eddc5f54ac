"""More plans of the toy study: one that takes its time, one to explore, one with a patch."""

from __future__ import annotations

from pathlib import Path

from tests.cli.study import CONFIRM, ok
from tests.tamper import hands

_SELECTION = CONFIRM[CONFIRM.index("selection:") : CONFIRM.index("arms:")]

DIRECT = CONFIRM.replace(_SELECTION, "")
"""The confirmation without a selection."""

SLEEPY = DIRECT.replace("{ms_per_token: 10.0", "{real_sleep: true, ms_per_token: 2.0").replace(
    "jitter: 0.02", "jitter: 0.001"
)
"""Takes about three seconds, so that it can be killed in the middle."""

EXPLORE = (
    DIRECT.replace("stage: confirm", "stage: explore")
    .replace("confirm: 24, explore: 8", "explore: 24")
    .replace("question: toy_speedup", "question: a_look")
)

PATCHED = DIRECT.replace("speedup: 1.6}}", "speedup: 1.6}, patch: [patches/fast.diff]}")


def write(folder: Path, name: str, text: str) -> Path:
    """Write a plan into a project."""
    path = hands.conf_of(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def frozen(folder: Path, name: str, text: str) -> Path:
    """A project with one frozen plan that has not run."""
    write(folder, name, text)
    patch = folder / "patches" / "fast.diff"
    patch.parent.mkdir(exist_ok=True)
    patch.write_text("--- a\n+++ b\n")
    ok(folder, "freeze", f"conf={name}")
    return folder
