"""The first reading of a table: which rows there are, which pairs are whole, how large values get.

Of the keys only 64-bit hashes are kept, eight bytes per row; of the clusters their labels. The
second reading (`table_sums`) then adds up the whole pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.arrays import Floats, Integers
from harness.measure.table_cells import Hashes, hashes, ids, joined, numbers, value_hashes
from harness.measure.table_plan import TablePlan
from harness.measure.table_source import Piece, Source
from harness.store.errors import UsageError

MAX_CLUSTERS = 1 << 24
_NONE = np.zeros(0, dtype=np.uint64)
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Rows:
    """A piece of the table, read."""

    first: int
    keys: Hashes
    """Hash of (item, repeat)."""
    arms: npt.NDArray[np.int8]
    """Index of each row's arm in the plan."""
    labels: dict[str, Any]
    """Cluster role → labels as Arrow text."""
    clusters: dict[str, Hashes]
    strata: Hashes | None
    stratum_labels: Any
    values: dict[str, Floats]
    """Quantity → numbers, NaN where missing."""
    texts: dict[str, tuple[Hashes, npt.NDArray[np.bool_]]]
    """Quantity → value hashes and where they are missing, for agreement."""


@dataclass
class Labels:
    """Distinct labels seen so far, with how many rows each has."""

    hashes: Hashes = field(default_factory=lambda: _NONE)
    """Sorted."""
    rows: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    text: Any = None
    _waiting: list[tuple[Hashes, Integers, Any]] = field(default_factory=list)
    _size: int = 0

    def see(self, found: Hashes, text: Any) -> None:
        """Count one piece's labels."""
        distinct, first, counted = np.unique(found, return_index=True, return_counts=True)
        self._waiting.append((distinct, counted.astype(np.int64), text.take(first)))
        self._size += len(distinct)
        if self._size > max(1 << 16, len(self.hashes)):
            self.settle()

    def settle(self) -> None:
        """Merge what is waiting."""
        import pyarrow as pa

        if not self._waiting:
            return
        known = [] if self.text is None else [(self.hashes, self.rows, self.text)]
        parts = [*known, *self._waiting]
        every = np.concatenate([part[0] for part in parts])
        counted = np.concatenate([part[1] for part in parts])
        distinct, first, places = np.unique(every, return_index=True, return_inverse=True)
        self.rows = np.bincount(places, weights=counted).astype(np.int64)
        self.text = pa.concat_arrays([part[2] for part in parts]).take(pa.array(first))
        self.hashes = distinct
        self._waiting, self._size = [], 0
        if len(distinct) > MAX_CLUSTERS:
            raise UsageError(f"more than {MAX_CLUSTERS} clusters")

    def order(self) -> Integers:
        """Return for each sorted hash the place of its label in the order of UTF-8 bytes."""
        from pyarrow import compute

        places = np.empty(len(self.hashes), dtype=np.int64)
        places[compute.sort_indices(self.text).to_numpy()] = np.arange(len(self.hashes))
        return places


class Keys:
    """Hashes of one arm, in blocks large enough to go back to the system when they are done."""

    def __init__(self) -> None:
        self._blocks: list[Hashes] = []
        self._used = _BLOCK

    def see(self, found: Hashes) -> None:
        """Append some hashes."""
        while len(found):
            if self._used == _BLOCK:
                self._blocks.append(np.empty(_BLOCK, dtype=np.uint64))
                self._used = 0
            part = found[: _BLOCK - self._used]
            self._blocks[-1][self._used : self._used + len(part)] = part
            self._used += len(part)
            found = found[len(part) :]

    def sorted(self) -> Hashes:
        """Return all hashes, sorted, and forget them."""
        size = len(self._blocks) * _BLOCK - (_BLOCK - self._used if self._blocks else 0)
        found = np.empty(size, dtype=np.uint64)
        for start in range((len(self._blocks) - 1) * _BLOCK, -1, -_BLOCK):
            part = found[start : start + _BLOCK]
            part[:] = self._blocks.pop()[: len(part)]
        found.sort()
        return found


@dataclass
class Survey:
    """What the first reading found."""

    rows: int = 0
    keys: list[Hashes] = field(default_factory=list)
    """Per arm, sorted."""
    labels: dict[str, Labels] = field(default_factory=dict)
    strata: dict[str, Hashes] = field(default_factory=dict)
    """Cluster role → stratum of each cluster, in the order of `labels[role].hashes`."""
    stratum_names: Labels = field(default_factory=Labels)
    missing: dict[tuple[str, int], Hashes] = field(default_factory=dict)
    """(quantity, arm) → keys of rows without a value."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Quantity → largest |value|."""
    smallest: dict[str, float] = field(default_factory=dict)
    """Quantity → smallest |value| above 0, which bounds |log|."""


class Reader:
    """Reads pieces of a table as its plan names them."""

    def __init__(self, source: Source, plan: TablePlan) -> None:
        self.source, self.plan = source, plan
        estimands = [one.estimand for one in plan.predictions]
        self.roles: list[str] = sorted({one.cluster for one in estimands})
        agreed = {one.of for one in estimands if one.kind == "agreement"}
        named = {one.of for one in estimands if one.kind != "agreement"}
        self.texts = sorted(agreed)
        self.quantities = sorted(named | {one.per for one in estimands if one.per is not None})
        self._check_headers()

    def _headers(self) -> dict[str, str]:
        """Return key of the plan → header."""
        columns = self.plan.columns
        wanted = {"columns.item": columns.item, "columns.arm": columns.arm}
        for key in ("repeat", "stratum"):
            header = getattr(columns, key)
            wanted |= {} if header is None else {f"columns.{key}": header}
        if "block" in self.roles:
            wanted["columns.block"] = str(columns.block)
        names = {*self.quantities, *self.texts}
        return wanted | {f"estimand.of: {name}": self.plan.header(name) for name in sorted(names)}

    def _check_headers(self) -> None:
        found = self.source.headers
        for key, header in self._headers().items():
            if found.count(header) == 0:
                listed = ", ".join(found[:12]) or "none"
                raise UsageError(
                    f"{self.source.name}: no column {header!r} ({key}); columns are {listed}"
                )
            if found.count(header) > 1:
                raise UsageError(f"{self.source.name}: two columns are called {header!r}")

    def rows(self) -> Iterator[Rows]:
        """Yield the table piece by piece."""
        first = 0
        for piece in self.source.pieces(sorted(set(self._headers().values()))):
            rows = self._read(piece, first)
            yield rows
            first += len(rows.keys)

    def _read(self, piece: Piece, first: int) -> Rows:
        columns = self.plan.columns
        item = ids(piece[columns.item], columns.item, first)
        keys = of_item = hashes(item)
        if columns.repeat is not None:
            repeat = ids(piece[columns.repeat], columns.repeat, first)
            keys = joined(of_item, hashes(repeat))
        labels, clusters = {"item": item}, {"item": of_item}
        if "block" in self.roles and columns.block is not None:
            labels["block"] = ids(piece[columns.block], columns.block, first)
            clusters["block"] = hashes(labels["block"])
        strata = None
        if columns.stratum is not None:
            strata = ids(piece[columns.stratum], columns.stratum, first)
        header = self.plan.header
        return Rows(
            first,
            keys,
            self._arms(piece[columns.arm], first),
            labels,
            clusters,
            None if strata is None else hashes(strata),
            strata,
            {name: numbers(piece[header(name)], header(name), first) for name in self.quantities},
            {name: value_hashes(piece[header(name)], header(name)) for name in self.texts},
        )

    def _arms(self, array: Any, first: int) -> npt.NDArray[np.int8]:
        import pyarrow as pa
        from pyarrow import compute

        text = ids(array, self.plan.columns.arm, first)
        known = pa.array(list(self.plan.arms.values()), pa.string())
        found = compute.index_in(text, value_set=known)
        codes = found.fill_null(-1).to_numpy(zero_copy_only=False)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            listed = ", ".join(map(repr, self.plan.arms.values()))
            raise UsageError(
                f"{self.plan.columns.arm}: row {first + row + 1}: "
                f"{text[row].as_py()!r} is not an arm of the plan; arms are {listed}"
            )
        return np.asarray(codes, dtype=np.int8)


def survey(reader: Reader) -> Survey:
    """Read the table once.

    Raises:
        UsageError: no rows, an arm without rows, a duplicate key, or a cluster in two strata.
    """
    found = Survey(labels={role: Labels() for role in reader.roles})
    keys = [Keys() for _ in reader.plan.arms]
    absent: dict[tuple[str, int], list[Hashes]] = {}
    strata: dict[str, list[Hashes]] = {role: [] for role in reader.roles}
    for rows in reader.rows():
        found.rows += len(rows.keys)
        for arm in range(len(keys)):
            keys[arm].see(rows.keys[rows.arms == arm])
        for role in reader.roles:
            found.labels[role].see(rows.clusters[role], rows.labels[role])
            strata[role] += _memberships(rows, role)
        if rows.strata is not None:
            found.stratum_names.see(rows.strata, rows.stratum_labels)
        _note_values(rows, found, absent, len(keys))
    if not found.rows:
        raise UsageError(f"{reader.source.name}: holds no rows")
    for labels in (*found.labels.values(), found.stratum_names):
        labels.settle()
    found.keys = [_sorted_keys(reader, arm, parts) for arm, parts in enumerate(keys)]
    found.missing = {place: np.sort(np.concatenate(parts)) for place, parts in absent.items()}
    if reader.plan.columns.stratum is not None:
        found.strata = {
            role: _stratum_of(found.labels[role], parts, role) for role, parts in strata.items()
        }
    return found


def _note_values(
    rows: Rows, found: Survey, absent: dict[tuple[str, int], list[Hashes]], arms: int
) -> None:
    gaps = {name: np.isnan(values) for name, values in rows.values.items()}
    gaps |= {f"{name} (text)": missing for name, (_, missing) in rows.texts.items()}
    for name, gap in gaps.items():
        for arm in range(arms):
            here = rows.keys[gap & (rows.arms == arm)]
            if len(here):
                absent.setdefault((name, arm), []).append(here)
    for name, values in rows.values.items():
        size = np.abs(values)
        found.peaks[name] = float(np.fmax.reduce(size, initial=found.peaks.get(name, 0.0)))
        least = found.smallest.get(name, np.inf)
        found.smallest[name] = float(np.fmin.reduce(size[size > 0], initial=least))


def _sorted_keys(reader: Reader, arm: int, keys: Keys) -> Hashes:
    label = list(reader.plan.arms.values())[arm]
    found = keys.sorted()
    if not len(found):
        raise UsageError(f"{reader.source.name}: arm {label!r} has no rows")
    found.sort()
    twice = found[1:] == found[:-1]
    if twice.any():
        raise UsageError(_duplicate(reader, arm, found[1:][twice][0]))
    return found


def _duplicate(reader: Reader, arm: int, key: np.uint64) -> str:
    """Say which rows share a key, by reading the table again."""
    places: list[tuple[int, str]] = []
    for rows in reader.rows():
        here = np.flatnonzero((rows.keys == key) & (rows.arms == arm)).tolist()
        places += [(rows.first + row + 1, rows.labels["item"][row].as_py()) for row in here]
        if len(places) > 1:
            break
    (first, one), (second, other) = places[:2]
    if one != other:
        return f"{reader.source.name}: items {one!r} and {other!r} share a 64-bit hash; rename one"
    hint = "" if reader.plan.columns.repeat else "; name columns.repeat if an item has several"
    return (
        f"{reader.source.name}: rows {first} and {second} are the same record, item {one!r} of arm "
        f"{list(reader.plan.arms.values())[arm]!r}{hint}"
    )


def _memberships(rows: Rows, role: str) -> list[Hashes]:
    """Return distinct (cluster, stratum) of a piece, shape (n, 2)."""
    if rows.strata is None:
        return []
    both = np.stack([rows.clusters[role], rows.strata], axis=1)
    _, first = np.unique(joined(both[:, 0], both[:, 1]), return_index=True)
    return [both[first]]


def _stratum_of(labels: Labels, parts: Sequence[Hashes], role: str) -> Hashes:
    both = np.concatenate(parts)
    _, first = np.unique(joined(both[:, 0], both[:, 1]), return_index=True)
    both = both[first][np.argsort(both[first][:, 0], kind="stable")]
    twice = both[1:, 0] == both[:-1, 0]
    if twice.any():
        place = int(np.searchsorted(labels.hashes, both[1:][twice][0, 0]))
        raise UsageError(f"columns.stratum: {role} {labels.text[place].as_py()!r} is in two strata")
    return np.ascontiguousarray(both[:, 1])


def among(wanted: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    """Return which hashes are among sorted ones."""
    if not len(known):
        return np.zeros(len(wanted), dtype=np.bool_)
    found = np.empty(len(wanted), dtype=np.bool_)
    for start in range(0, len(wanted), _BLOCK):
        part = wanted[start : start + _BLOCK]
        places = np.minimum(np.searchsorted(known, part), len(known) - 1)
        found[start : start + _BLOCK] = known[places] == part
    return found


def union(parts: Iterable[Hashes]) -> Hashes:
    """Return the distinct hashes of several arrays, sorted."""
    return np.unique(np.concatenate([_NONE, *parts]))
