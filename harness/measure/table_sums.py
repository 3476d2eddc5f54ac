"""The second reading of a table: sums per cluster over the whole pairs, for every prediction.

Sums are exact on a grid that the first reading fixed, so the same table gives the same bits in any
cut into row groups. Kinds that need both values of a pair at once (answers, agreement, quantiles)
keep that one column: twenty bytes per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from harness.analysis import AnalysisError, ExactSums
from harness.analysis.arrays import Booleans, Floats, Integers
from harness.analysis.clusters import packed_codes
from harness.measure.table_cells import Hashes
from harness.measure.table_plan import ONE_ARM, TableEstimand, TablePlan, TablePrediction
from harness.measure.table_survey import Reader, Rows, Survey, among, union
from harness.store.errors import UsageError

JOINT = frozenset({"agreement", "quantile_ratio", "quantile_diff"})
CHANGED = "the table changed while it was read"
_POSITIVE = frozenset({"log_ratio", "quantile_ratio"})
_NOT_NEGATIVE = frozenset({"ratio_of_sums", "rate"})


@dataclass
class Joined:
    """Values of both arms by key, for kinds that compare them within a pair."""

    keys: list[Hashes] = field(default_factory=list)
    codes: list[Integers] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def sorted(self) -> tuple[Integers, Floats]:
        """Return cluster codes and values in the order of keys."""
        if not self.keys:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        order = np.argsort(np.concatenate(self.keys), kind="stable")
        return np.concatenate(self.codes)[order], np.concatenate(self.values)[order]


@dataclass(frozen=True)
class Summed:
    """One prediction's whole pairs, by cluster; only clusters that have any."""

    first: Floats
    """Σ of the first slot; see `_slots`."""
    second: Floats
    pairs: Integers
    strata: list[str] | None
    dropped: int
    """Pairs without both values."""
    joint: tuple[Integers, Floats, Floats] | None
    """Cluster codes, values A and values B of each pair."""
    bounds: tuple[float, float] | None
    """Worst and best mean difference over all pairs, had missing values been extreme."""


class Collector:
    """Adds up one prediction."""

    def __init__(self, plan: TablePlan, prediction: TablePrediction, found: Survey) -> None:
        self.estimand: TableEstimand = prediction.estimand
        self._name = f"predictions.{prediction.id}"
        self._found, self._plan = found, plan
        names = list(plan.arms)
        self.arms = [names.index(name) for name in self.estimand.arms]
        self.answers = self.estimand.kind == "mean_diff" and self.estimand.of in plan.answers
        self.is_joint = self.answers or self.estimand.kind in JOINT
        self.incomplete = self._incomplete()
        labels = found.labels[self.estimand.cluster]
        self._order = labels.order()
        self._sizes = [np.zeros(len(self._order), dtype=np.int64) for _ in self.arms]
        self._checks = [np.zeros(len(self._order), dtype=np.uint64) for _ in self.arms]
        self._joined = [Joined(), Joined()]
        peak = np.array([self._peak()])
        largest = int(labels.rows.max())
        self._sums = [ExactSums(len(self._order), peak, largest) for _ in range(2)]
        self._partial = [ExactSums(1, peak, found.rows) for _ in self.arms]
        self._known = [0, 0]
        """Values that dropped pairs do have, per arm."""

    @property
    def used_arms(self) -> list[int]:
        """Places of the arms that the estimand is about: 0 baseline, 1 treated."""
        return [1] if self.estimand.kind in ONE_ARM else [0, 1]

    def _incomplete(self) -> Hashes:
        names = [self.estimand.of] if self.estimand.per is None else _both(self.estimand)
        if self.estimand.kind == "agreement":
            names = [f"{self.estimand.of} (text)"]
        missing = self._found.missing
        parts = [
            missing[name, self.arms[place]]
            for name in names
            for place in self.used_arms
            if (name, self.arms[place]) in missing
        ]
        if len(self.used_arms) == 2:
            one, other = (self._found.keys[arm] for arm in self.arms)
            parts += [one[~among(one, other)], other[~among(other, one)]]
        return union(parts)

    def _peak(self) -> float:
        if self.estimand.kind == "agreement":
            return 1.0
        peak = self._found.peaks[self.estimand.of]
        if self.estimand.per is not None:
            peak = max(peak, self._found.peaks[self.estimand.per])
        if self.estimand.kind != "log_ratio":
            return peak
        least = self._found.smallest[self.estimand.of]
        sizes = [abs(float(np.log(end))) for end in (peak, least) if 0 < end < np.inf]
        return max(sizes, default=0.0)

    def add(self, rows: Rows) -> None:
        """Add a piece of the table."""
        role = self.estimand.cluster
        known = self._found.labels[role].hashes
        every = np.minimum(np.searchsorted(known, rows.clusters[role]), len(known) - 1)
        if not np.array_equal(known[every], rows.clusters[role]):
            raise UsageError(CHANGED)
        codes, whole = self._order[every], ~among(rows.keys, self.incomplete)
        for place in self.used_arms:
            of_arm = rows.arms == self.arms[place]
            here = of_arm & whole
            self._check(rows, of_arm)
            self._count(place, codes[here], rows.keys[here])
            for slot, values in self._slots(rows, here, place):
                self._sums[slot].add(codes[here], values[:, None])
            if self.is_joint:
                self._keep(place, rows, here, codes)
            if self.estimand.kind == "mean_diff":
                self._add_partial(place, rows, of_arm & ~whole)

    def _check(self, rows: Rows, of_arm: Booleans) -> None:
        """Refuse values that the estimand has no meaning for, with their row."""
        kind = self.estimand.kind
        for name in [] if kind == "agreement" else _both(self.estimand):
            values = rows.values[name]
            if kind in _POSITIVE:
                bad, need = values <= 0, f"{kind} needs values above 0"
            elif kind in _NOT_NEGATIVE:
                bad, need = values < 0, f"{kind} needs values of at least 0"
            elif self.answers:
                bad, need = (values != 0) & (values != 1) & ~np.isnan(values), "answers are 0 or 1"
            elif name in self._plan.ranges:
                low, high = self._plan.ranges[name]
                bad, need = (values < low) | (values > high), f"its range is {low:g} to {high:g}"
            else:
                continue
            bad &= of_arm
            if bad.any():
                row = int(np.argmax(bad))
                raise UsageError(
                    f"{self._plan.header(name)}: row {rows.first + row + 1}: found "
                    f"{values[row]:g}, but {need} ({self._name})"
                )

    def _count(self, place: int, codes: Integers, keys: Hashes) -> None:
        found, packed = packed_codes(codes, len(self._order))
        places = slice(None) if found is None else found
        size = len(self._order) if found is None else len(found)
        self._sizes[place][places] += np.bincount(packed, minlength=size)
        for shift in (np.uint64(0), np.uint64(32)):
            half = ((keys >> shift) & np.uint64(0xFFFFFFFF)).astype(np.float64)
            added = np.bincount(packed, weights=half, minlength=size).astype(np.uint64)
            self._checks[place][places] += added << shift

    def _slots(self, rows: Rows, here: Booleans, place: int) -> Iterator[tuple[int, Floats]]:
        """Yield (slot, values): a difference in slot 0, or both arms' sums in slots 0 and 1."""
        estimand = self.estimand
        match estimand.kind:
            case "mean_diff" if not self.answers:
                sign = (-1.0, 1.0)[place]
                yield 0, sign * rows.values[estimand.of][here]
            case "log_ratio":
                sign = (1.0, -1.0)[place]
                yield 0, sign * np.log(rows.values[estimand.of][here])
            case "ratio_of_sums":
                yield place, rows.values[estimand.of][here]
            case "rate":
                yield 0, rows.values[estimand.of][here]
                yield 1, rows.values[str(estimand.per)][here]
            case "tail_share" | "tail_ratio":
                over = rows.values[estimand.of][here] > float(estimand.threshold or 0.0)
                yield 0 if estimand.kind == "tail_share" else place, over.astype(np.float64)

    def _keep(
        self,
        place: int,
        rows: Rows,
        here: Booleans,
        codes: Integers,
    ) -> None:
        of = self.estimand.of
        if self.estimand.kind == "agreement":  # 64 bits of a hash travel as a float64's bits
            values = rows.texts[of][0][here].view(np.float64)
        else:
            values = rows.values[of][here]
        kept = self._joined[place]
        kept.keys.append(rows.keys[here])
        kept.codes.append(codes[here])
        kept.values.append(values)

    def _add_partial(self, place: int, rows: Rows, here: Booleans) -> None:
        """Add what is known of dropped pairs."""
        known = rows.values[self.estimand.of][here]
        known = known[~np.isnan(known)]
        self._partial[place].add(np.zeros(len(known), dtype=np.int64), known[:, None])
        self._known[place] += len(known)

    def finished(self) -> Summed:
        """Return the sums.

        Raises:
            UsageError: a pair whose records stand in two clusters.
        """
        role = self.estimand.cluster
        labels = self._found.labels[role]
        if len(self.used_arms) == 2:
            unlike = self._checks[0] != self._checks[1]
            if unlike.any():
                place = int(np.flatnonzero(self._order == int(np.argmax(unlike)))[0])
                raise UsageError(
                    f"columns.{role}: {labels.text[place].as_py()!r} holds other items for one arm "
                    "than for the other; both records of a pair belong to one cluster"
                )
        pairs = self._sizes[1]
        kept = np.flatnonzero(pairs)
        joint = self._joint(kept) if self.is_joint else None
        sums = [one.sums[kept, 0] for one in self._sums]
        bounds = self._bounds(float(self._difference(joint, sums[0])))
        return Summed(
            sums[0], sums[1], pairs[kept], self._strata(kept), len(self.incomplete), joint, bounds
        )

    def _joint(self, kept: Integers) -> tuple[Integers, Floats, Floats]:
        codes, a = self._joined[0].sorted()
        _, b = self._joined[1].sorted()
        return np.searchsorted(kept, codes), a, b

    def _difference(self, joint: tuple[Integers, Floats, Floats] | None, sums: Floats) -> float:
        if self.answers and joint is not None:
            return float((joint[2] - joint[1]).sum())
        return float(sums.sum())

    def _bounds(self, known: float) -> tuple[float, float] | None:
        """Return worst and best Σ(B − A)/n with every missing value at the end of its range."""
        ends = self._plan.range_of(self.estimand.of)
        dropped = len(self.incomplete)
        if self.estimand.kind != "mean_diff" or ends is None or not dropped:
            return None
        a, b = (float(one.sums[0, 0]) for one in self._partial)
        gaps_a, gaps_b = (dropped - number for number in self._known)
        total = int(self._sizes[1].sum()) + dropped
        low, high = ends
        worst = known + (b + gaps_b * low) - (a + gaps_a * high)
        best = known + (b + gaps_b * high) - (a + gaps_a * low)
        return worst / total, best / total

    def _strata(self, kept: Integers) -> list[str] | None:
        of_cluster = self._found.strata.get(self.estimand.cluster)
        if of_cluster is None:
            return None
        names = self._found.stratum_names
        in_order = np.empty_like(of_cluster)
        in_order[self._order] = of_cluster
        places = np.searchsorted(names.hashes, in_order[kept])
        return [str(names.text[int(place)].as_py()) for place in places]


def _both(estimand: TableEstimand) -> list[str]:
    return [estimand.of] if estimand.per is None else [estimand.of, estimand.per]


def sums_of(reader: Reader, found: Survey) -> dict[str, Summed]:
    """Read the table again and return every prediction's sums by its id."""
    make = partial(Collector, reader.plan, found=found)
    collectors = {one.id: make(prediction=one) for one in reader.plan.predictions}
    seen = 0
    try:
        for rows in reader.rows():
            seen += len(rows.keys)
            for collector in collectors.values():
                collector.add(rows)
    except AnalysisError as error:
        raise UsageError(f"{reader.source.name}: {error}") from error
    if seen != found.rows:
        raise UsageError(f"{reader.source.name}: {CHANGED}")
    return {name: collector.finished() for name, collector in collectors.items()}
