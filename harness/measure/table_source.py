"""Where a table's rows come from: a CSV or Parquet file, piece by piece, or columns in memory.

A Parquet file is read in its row groups and only the columns that are needed, so a table may be
larger than memory. Every column of a CSV file arrives as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from harness.store.errors import UsageError

MAX_ROWS_AT_ONCE = 1 << 14
Piece = Mapping[str, Any]
"""Header → pyarrow array, all of one length."""


class Source(Protocol):
    """A table that can be read more than once, in the same order."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def headers(self) -> tuple[str, ...]:
        """Names of all columns."""

    def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows, a few at a time, of some columns."""


def open_table(path: Path) -> Source:
    """Return the table in a file, by its ending.

    Raises:
        UsageError: no such file, another ending, or a file that cannot be read.
    """
    ending = path.suffix.lower()
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    if ending in (".parquet", ".pq"):
        return ParquetTable(path)
    if ending in (".csv", ".tsv"):
        return CsvTable(path)
    raise UsageError(f"{path}: ends in {ending or 'nothing'}, expected .csv, .tsv or .parquet")


class ParquetTable:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.name = str(path)
        self._path = path
        with _one_line(self.name), parquet.ParquetFile(path) as file:
            self.headers = tuple(file.schema_arrow.names)

    def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
        """Yield row group after row group, cut where one is large."""
        from pyarrow import parquet

        with _one_line(self.name), parquet.ParquetFile(self._path, pre_buffer=False) as file:
            for batch in file.iter_batches(
                MAX_ROWS_AT_ONCE, columns=list(headers), use_threads=False
            ):
                yield {name: batch.column(name) for name in headers}


class CsvTable:
    """A CSV file, or a TSV file by its ending; UTF-8 with a header line."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._tab = path.suffix.lower() == ".tsv"
        with _one_line(self.name):
            self.headers = tuple(self._reader(()).schema.names)

    def _reader(self, headers: Sequence[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        return csv.open_csv(
            self._path,
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter="\t" if self._tab else ",", newlines_in_values=True
            ),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() for name in headers},
                include_columns=list(headers),
                strings_can_be_null=False,
            ),
        )

    def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
        """Yield batch after batch as text."""
        with _one_line(self.name):
            for batch in self._reader(headers):
                if batch.num_rows:
                    yield {name: batch.column(name) for name in headers}


class MemoryTable:
    """Columns in memory: header → values."""

    def __init__(self, columns: Mapping[str, Any], name: str = "table") -> None:
        import pyarrow as pa

        self.name = name
        with _one_line(name):
            arrays = [pa.array(values) for values in columns.values()]
        if len({len(array) for array in arrays}) > 1:
            raise UsageError(f"{name}: columns differ in length")
        self._arrays = dict(zip(columns, arrays, strict=True))
        self.headers = tuple(columns)

    def pieces(self, headers: Sequence[str]) -> Iterator[Piece]:
        """Yield all rows at once."""
        if headers and len(self._arrays[headers[0]]):
            yield {name: self._arrays[name] for name in headers}


class _one_line:  # noqa: N801 - used like a function
    """Turn what the reader says about a broken file into one line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import pyarrow as pa

        readers = (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, LookupError)
        if isinstance(error, readers) and not isinstance(error, UsageError):
            words = " ".join(str(error).split())[:300]
            raise UsageError(f"{self._name}: cannot be read as a table: {words}") from error
