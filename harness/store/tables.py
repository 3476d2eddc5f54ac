"""Tables of numbers as Parquet files, and the lines that they are made from."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.store.canonical import Json
from harness.store.files import replace, storage_errors


def append_line(path: Path, value: Json) -> None:
    """Append one JSON line without a sync: what a crash loses here must not matter."""
    with storage_errors(path), path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(value, allow_nan=False) + "\n")


def read_lines(path: Path) -> Iterator[Json]:
    """Yield the whole lines of a file that may be missing or cut short."""
    if not path.exists():
        return
    with storage_errors(path), path.open(encoding="utf-8", errors="replace") as handle:
        for line in handle:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def replace_table(path: Path, rows: Sequence[Json]) -> None:
    """Write rows as a Parquet table in one step; a column that a row lacks is null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = sorted({name for row in rows for name in row})
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    replace(path, buffer.getvalue())


def read_table(path: Path) -> list[Json]:
    """Return the rows of a Parquet table."""
    import pyarrow.parquet as pq

    with storage_errors(path):
        rows: list[Json] = pq.read_table(path).to_pylist()
    return rows
