"""A study's whole history on one page, failures printed as large as the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.report.format import listed, plural
from harness.report.ledger_view import (
    Analyses,
    calibration,
    head_facts,
    judged,
    ledger_grid,
    locks,
    of_abandoned,
    predictions_grid,
    questions,
    timeline,
    totals,
)
from harness.report.render import render, written
from harness.store.canonical import Json


def render_ledger_report(
    study: str, records: Sequence[Json], analyses: Analyses, *, anchored: bool | str = False
) -> dict[str, bytes]:
    """Return every file of the ledger's report by name; the same input gives the same bytes."""
    found, frozen = judged(records, analyses), locks(records)
    again = [item for item in found if not item.is_registered]
    values = {
        "study": study,
        "summary": _summary(records),
        "totals": totals(found),
        "calibration": calibration(found),
        "abandoned": of_abandoned(records),
        "questions": questions(records, analyses),
        "predictions": ledger_grid(records, analyses),
        "replications": predictions_grid("replications", "Replications", again, frozen),
        "timeline": timeline(records),
        "head": head_facts(records, anchored),
    }
    return {f"ledger.{kind}": render(f"ledger.{kind}", values) for kind in ("html", "md", "tex")}


def write_ledger_report(
    study: str,
    records: Sequence[Json],
    analyses: Analyses,
    out: Path,
    *,
    anchored: bool | str = False,
) -> list[Path]:
    """Write the ledger's report into `out` and return its files.

    Raises:
        StorageError: the disk refused.
    """
    files = render_ledger_report(study, records, analyses, anchored=anchored)
    return [Path(path) for path in written(files, out)]


def _summary(records: Sequence[Json]) -> str:
    frozen = locks(records)
    unused = [lock.plan for lock in frozen if lock.run_id is None]
    asked = len({lock.question for lock in frozen})
    text = f"{plural(asked, 'question')}, {plural(len(frozen), 'lock')}"
    return f"{text}; never run: {listed(unused)}." if unused else f"{text}, each of them run."
