"""A small study on the fake engine: a selection and a confirmation, frozen and run by commands."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from harness.cli.main import main
from harness.report import canvas

SELECT = """
study: toy
stage: select
question: toy_candidates
title: which toy patch
model: {name: none, loops: 1}
task: {max_tokens: 32}
partitions: {source: arithmetic, seed: toy, select: 16, explore: 8}
arms:
  pristine: {role: pristine, backend: fake, options: {ms_per_token: 10.0, jitter: 0.02}}
  fast: {role: patched, backend: fake, options: {ms_per_token: 10.0, jitter: 0.02, speedup: 1.6}}
  wild:
    role: patched
    backend: fake
    options: {ms_per_token: 10.0, jitter: 0.02, speedup: 2.0, disagree_share: 0.9}
schedule: {design: williams, block_items: 2, blocks: 8, launches_per_arm: 1, warmup_visits: 1}
measurements: [generation]
limits: {}
predictions:
  - id: S1
    claim: wild is faster than fast
    estimand: {kind: log_ratio, of: decode_seconds, arms: [fast, wild], cluster: block}
    region: [1.0, null]
    open: true
    family: primary
    confidence: 0.9
    min_clusters: 6
"""

CONFIRM = """
study: toy
stage: confirm
question: toy_speedup
title: the chosen toy patch against pristine
model: {name: none, loops: 1}
task: {max_tokens: 32}
partitions: {source: arithmetic, seed: toy, confirm: 24, explore: 8}
selection:
  from: toy_select
  candidates: [{arm: fast}, {arm: wild}]
  rule: {maximize: tokens_per_second, subject_to: [{metric: answers_match, at_least: 0.9}]}
arms:
  pristine: {role: pristine, backend: fake, options: {ms_per_token: 10.0, jitter: 0.02}}
  patched: {role: patched, backend: fake, options: {ms_per_token: 10.0, jitter: 0.02, speedup: 1.6}}
schedule:
  design: abba_baab
  block_items: 2
  blocks: 12
  spare_blocks: 1
  launches_per_arm: 3
  aa_blocks: 8
measurements: [generation]
limits: {}
predictions:
  - id: P1
    claim: at least 1.4 times as fast
    estimand: {kind: log_ratio, of: decode_seconds, cluster: block}
    region: [1.4, null]
    family: primary
    confidence: 0.9
    min_clusters: 8
  - id: P2
    claim: at least 3 times as fast
    estimand: {kind: log_ratio, of: decode_seconds, cluster: block}
    region: [3.0, null]
    family: secondary
    confidence: 0.1
    min_clusters: 8
  - id: P3
    claim: the same tokens
    estimand: {kind: agreement, of: tokens, cluster: item}
    region: [0.8, null]
    family: secondary
    confidence: 0.9
    min_clusters: 16
"""


@dataclass(frozen=True)
class Result:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, then come back."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def harness(folder: Path, *words: str) -> Result:
    """Run a command in a project's folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with inside(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Result(code, out.getvalue(), err.getvalue())


def ok(folder: Path, *words: str) -> Result:
    """Run a command that must succeed."""
    result = harness(folder, *words)
    assert result.code == 0, result.err + result.out
    return result


OUTLINE = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>'


@contextlib.contextmanager
def outlines() -> Iterator[None]:
    """Draw no figures for a while: that takes longer than all the rest of a small run."""

    def outline(name: str, title: str, caption: str, *_: object) -> canvas.Figure:
        return canvas.Figure(name, title, caption, OUTLINE, b"%PDF-1.4\n%%EOF\n")

    with mock.patch.object(canvas, "drawn", outline):
        yield


def write_plans(folder: Path) -> None:
    """Write the study's two plans."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "toy_select.yaml").write_text(SELECT, encoding="utf-8")
    (folder / "conf" / "toy_confirm.yaml").write_text(CONFIRM, encoding="utf-8")


_FINISHED: list[Path] = []


def finished_once(folder: Path) -> Path:
    """Return a finished study that is built once for all tests; copy it before changing it."""
    if not _FINISHED:
        finish(folder)
        _FINISHED.append(folder)
    return _FINISHED[0]


def finish(folder: Path) -> None:
    """Freeze and run both plans; the second run's report has its figures."""
    write_plans(folder)
    ok(folder, "freeze", "conf=toy_select")
    with outlines():
        ok(folder, "run", "conf=toy_select")
    ok(folder, "freeze", "conf=toy_confirm")
    ok(folder, "run", "conf=toy_confirm")
