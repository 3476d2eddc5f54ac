"""The plan of a table: what its columns are called, and what is predicted of them.

It is for people who only want the statistics. A prediction has the schema of an experiment's plan;
nothing is frozen, so every verdict says "not preregistered".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from harness.plan.predictions import ALPHA
from harness.plan.schema import Estimand, Name, Part, Prediction
from harness.store.canonical import canonical
from harness.store.digests import sha256_bytes
from harness.store.errors import UsageError

Header = Annotated[str, Field(min_length=1, max_length=200)]
Kind = Literal[
    "log_ratio",
    "ratio_of_sums",
    "mean_diff",
    "agreement",
    "rate",
    "quantile_ratio",
    "quantile_diff",
    "tail_share",
    "tail_ratio",
]
RATIOS = frozenset({"log_ratio", "ratio_of_sums", "quantile_ratio", "tail_ratio"})
ONE_ARM = frozenset({"rate", "tail_share"})
LARGEST_PLAN = 1 << 20


class Columns(Part):
    """Headers of the table's columns."""

    item: Header = "item"
    """What both arms were given; pairs are formed within it."""
    arm: Header = "arm"
    """Which arm a row is of."""
    repeat: Header | None = None
    """Tells several pairs of one item apart (a sample, a visit); without it an item has one."""
    block: Header | None = None
    """The cluster column behind `cluster: block`: a batch, a conversation, an engine start."""
    stratum: Header | None = None
    """Strata that clusters were drawn in, such as templates; the variance is then within them."""
    metrics: dict[Name, Header] = Field(default_factory=dict)
    """Headers of quantities that are not called as in `estimand.of`."""


class TableEstimand(Estimand):
    """What a prediction is about; beside a plan's kinds, quantiles and tails."""

    kind: Kind  # type: ignore[assignment]
    """What is estimated; see docs/statistics.md."""
    p: Annotated[str, Field(pattern=r"^0\.[0-9]{1,6}$")] | None = None
    """The quantile of a quantile_ratio or quantile_diff, such as "0.95"."""
    threshold: float | None = None
    """The bound strictly above which a value is in the tail."""


class TablePrediction(Prediction):
    """A typed claim with a decision rule; its level follows from the family."""

    estimand: TableEstimand


class TablePlan(Part):
    """How to read a table and what is predicted of it."""

    title: str = "a table of paired records"
    """One line for people."""
    arms: dict[Name, Header] = Field(
        default_factory=lambda: {"pristine": "pristine", "patched": "patched"}
    )
    """Arms as predictions call them, baseline and treated, and what the table calls them."""
    columns: Columns = Columns()
    answers: tuple[Name, ...] = ("correct",)
    """Quantities that are right (1) or wrong (0); near the ceiling they get a score interval."""
    ranges: dict[Name, tuple[float, float]] = Field(default_factory=dict)
    """Smallest and largest possible value, to bound what missing pairs could have done."""
    max_missing_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Largest share of pairs without both values before a prediction is void."""
    predictions: Annotated[list[TablePrediction], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON; it keys the resamples."""
        return sha256_bytes(canonical(self.model_dump(mode="json", exclude_none=True)))

    def header(self, quantity: str) -> str:
        """Return the header of a quantity's column."""
        return self.columns.metrics.get(quantity, quantity)

    def confidence_level(self, prediction: TablePrediction) -> str:
        """Return the interval's confidence 1 − 2α: primaries share 5 %, others have it each."""
        family = [one for one in self.predictions if one.family == "primary"]
        alpha = ALPHA / len(family) if prediction.family == "primary" else ALPHA
        level = (1 - 2 * alpha).quantize(Decimal("1e-12")).normalize()
        return format(level, "f")

    def range_of(self, quantity: str) -> tuple[float, float] | None:
        """Return the possible values of a quantity, where they are bounded."""
        return self.ranges.get(quantity, (0.0, 1.0) if quantity in self.answers else None)


def read_table_plan(path: Path) -> TablePlan:
    """Return the plan in a YAML file.

    Raises:
        UsageError: no such file, not YAML, an unknown key or a wrong type; one line with the key.
    """
    try:
        if path.stat().st_size > LARGEST_PLAN:
            raise UsageError(f"{path}: larger than {LARGEST_PLAN} bytes; is it the plan?")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return table_plan(_values(text))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def table_plan(values: object) -> TablePlan:
    """Return the typed plan of plain values.

    Raises:
        UsageError: naming the key, what was found and what is expected.
    """
    if not isinstance(values, dict):
        raise UsageError("expected a mapping with arms, columns and predictions")
    try:
        plan = TablePlan.model_validate_json(canonical(values))
    except ValidationError as error:
        raise UsageError(_first(error)) from error
    for problem in _problems(plan):
        raise UsageError(problem)
    return plan


def _values(text: str) -> Any:
    """Read YAML safely; a key that appears twice is refused, not overwritten."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[Hashable, Any]:
            seen: set[Hashable] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable) or key in seen:
                    raise UsageError(f"line {key_node.start_mark.line + 1}: {key} appears twice")
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line = " ".join(str(error).split())
        raise UsageError(f"not YAML: {line}") from error


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    found = repr(problem["input"])
    shown = found if len(found) <= 60 else f"{found[:57]}…"
    return f"{key}: found {shown}, expected: {problem['msg'].lower()}"


def _problems(plan: TablePlan) -> Iterator[str]:
    """Yield what types alone cannot say."""
    ids = [prediction.id for prediction in plan.predictions]
    for twice in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"predictions: {twice} appears twice; give each prediction its own id"
    labels = list(plan.arms.values())
    if len(labels) < 2 or len(set(labels)) < len(labels):
        yield f"arms: found {labels}, expected at least two different labels"
    for name, (low, high) in plan.ranges.items():
        if low > high:
            yield f"ranges.{name}: [{low}, {high}] is empty; put the lower end first"
    for prediction in plan.predictions:
        for problem in _prediction(plan, prediction):
            yield f"predictions.{prediction.id}.{problem}"


def _prediction(plan: TablePlan, prediction: TablePrediction) -> Iterator[str]:
    estimand, (low, high) = prediction.estimand, prediction.region
    for name in estimand.arms:
        if name not in plan.arms:
            yield f"estimand.arms: {name} is not an arm; arms are {', '.join(plan.arms)}"
    if estimand.arms[0] == estimand.arms[1] and estimand.kind not in ONE_ARM:
        yield f"estimand.arms: {estimand.arms[0]} against itself"
    if low is None and high is None:
        yield "region: has no end, so it could never fail"
    if low is not None and high is not None and low >= high:
        yield f"region: [{low}, {high}] is empty; put the lower end first"
    takes = {"per": {"rate"}, "p": {"quantile_ratio", "quantile_diff"}, "threshold": _TAILS}
    for key, kinds in takes.items():
        if (estimand.kind in kinds) != (getattr(estimand, key) is not None):
            yield f"estimand.{key}: {' and '.join(sorted(kinds))} need it and nothing else takes it"
    if estimand.p is not None and not estimand.p.strip("0."):
        yield f"estimand.p: found {estimand.p}, expected a share above 0"
    if estimand.cluster == "block" and plan.columns.block is None:
        yield "estimand.cluster: block needs columns.block"


_TAILS = {"tail_share", "tail_ratio"}
