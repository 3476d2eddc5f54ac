"""Telemetry on its way to the run's table: lines while the run goes on, Parquet at its end."""

from __future__ import annotations

from collections.abc import Sequence

from harness.run.telemetry import Reading
from harness.store.canonical import Json
from harness.store.paths import RunPaths
from harness.store.tables import append_line, read_lines, replace_table


def keep_samples(paths: RunPaths, visit: Json, samples: Sequence[Reading]) -> None:
    """Keep the samples of a visit under its key; they are not synced, as no verdict reads them.

    What decides about a block is in the visit's own record.
    """
    key = {
        "phase": visit["phase"],
        **visit["key"],
        "launch": visit["launch"],
        "start": visit["start"],
    }
    append_line(paths.samples, {"key": key, "samples": list(samples)})


def publish(paths: RunPaths) -> None:
    """Write the table of all samples; the lines it was made from go.

    Called again after a crash in between, it keeps the table that is there.
    """
    lines = read_lines(paths.samples)
    rows = [{**line["key"], **reading} for line in lines for reading in line["samples"]]
    if rows:
        replace_table(paths.telemetry, rows)
        paths.samples.unlink(missing_ok=True)
