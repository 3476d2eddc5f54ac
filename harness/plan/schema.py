"""The typed plan. Its RFC 8785 JSON (unset fields left out) is what is hashed and frozen."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

SCHEMA = 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Selected = Literal["selected"]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """Base of every part of a plan: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class ModelSpec(Part):
    """Which checkpoint an arm runs."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-/]{1,200}$")]
    """An embedded model (`tiny_ripe`) or a local folder in a published layout."""
    loops: Positive
    """Loops of the core at full depth, R."""
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"


class TaskSpec(Part):
    """How an item becomes a prompt and when its answer ends."""

    max_tokens: Positive
    stop: str = "\n"
    """Generation ends with the token that completes this text."""


class Partitions(Part):
    """Disjoint sets of items, drawn by a seeded rule from the bucket of the same name."""

    source: Name
    seed: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the item source, such as its difficulty."""
    explore: Natural = 0
    select: Natural = 0
    confirm: Natural = 0


class CacheSpec(Part):
    """Which planes a read sees, and how the prompt is run."""

    policy: Literal["full", "deepest", "ripe"]
    window: Natural | Selected | None = None
    """W of RIPE: how many *earlier* positions are read at their own plane."""
    prefill: Literal["exact", "full_prompt"] = "full_prompt"


class DecodeSpec(Part):
    """Sequential or self-speculative decoding."""

    kind: Literal["sequential", "speculative"]
    draft_loops: Positive | Selected | None = None
    draft_tokens: Positive | Selected | None = None
    draft_reads: Literal["deepest", "policy"] | None = None


class ArmSpec(Part):
    """A named treatment: backend, environment and options."""

    role: Literal["pristine", "patched", "control"]
    backend: Name
    cache: CacheSpec | None = None
    decode: DecodeSpec | None = None
    loops: Positive | None = None
    """Loops of this arm where they differ from the model's."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the `fake` and `process` backends."""
    patch: list[str] = Field(default_factory=list)
    """Project files that make up the patch; copied and hashed at freeze."""


class Schedule(Part):
    """Blocks, the order of visits within them, launches and the A/A control."""

    design: Literal["abba_baab", "williams"]
    pair: tuple[Name, Name] | None = None
    """The arms visited in ABBA/BAAB order; by default pristine and the first patched one."""
    block_items: Positive
    """Items of a block; a block is one frozen batch."""
    blocks: Positive
    spare_blocks: Natural = 0
    warmup_visits: Natural = 1
    aa_blocks: Natural = 0
    launches_per_arm: Positive = 1
    residency: Literal["shared", "exclusive"] = "shared"
    threads: Positive = 1


class Limits(Part):
    """Frozen limits; crossing one voids a block or the run, by rule and never by eye."""

    item_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    block_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    start_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    cache_hit_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    interrupted_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    void_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    aa_ratio: Annotated[float, Field(gt=0)] = 0.1
    """δ: the A/A log ratio's interval must lie within ±δ."""


class Estimand(Part):
    """What a prediction is about. There are no defaults for the cluster."""

    kind: Literal["log_ratio", "ratio_of_sums", "mean_diff", "agreement", "rate"]
    of: Name
    """A measured quantity, e.g. decode_cpu_seconds, correct, tokens, cache_bytes, accepted."""
    per: Name | None = None
    """Denominator of a `rate`, e.g. drafted."""
    arms: tuple[Name, Name] = ("pristine", "patched")
    """Baseline and treated arm; a `rate` is about the second."""
    cluster: Literal["item", "block"]


Bound = Annotated[float, Field()] | None


class Prediction(Part):
    """A typed claim with a decision rule; its level follows from the family."""

    id: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9_]{0,15}$")]
    claim: str
    estimand: Estimand
    region: tuple[Bound, Bound]
    open: bool = False
    """Whether the region's ends are excluded."""
    rule: Literal["ci", "point"] = "ci"
    family: Literal["primary", "secondary", "descriptive", "control"]
    confidence: Annotated[float, Field(ge=0, le=1)]
    """The author's probability that the prediction holds."""
    min_clusters: Annotated[int, Field(ge=2)]
    margin_reason: str | None = None
    informed_by: str | None = None


class Metric(Part):
    """A metric with a bound, for selection."""

    metric: Name
    at_least: float | None = None
    at_most: float | None = None


class SelectionRule(Part):
    """Maximise or minimise one metric subject to constraints; ties go to the earlier candidate."""

    maximize: Name | None = None
    minimize: Name | None = None
    subject_to: list[Metric] = Field(default_factory=list)


class Candidate(Part):
    """An arm of the selection plan and the options it stands for."""

    arm: Name
    window: Natural | None = None
    draft_loops: Positive | None = None
    draft_tokens: Positive | None = None


class Selection(Part):
    """How `harness freeze` fills in every option that says `selected`."""

    source: Name = Field(alias="from")
    """The plan whose sealed registered run the rule reads."""
    candidates: list[Candidate]
    rule: SelectionRule
    chosen: Name | None = None
    """Filled in by freeze."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )


class Plan(Part):
    """One experiment."""

    plan: Name
    """The name of its file."""
    study: Name
    stage: Literal["explore", "select", "confirm"]
    question: Name
    title: str
    model: ModelSpec
    task: TaskSpec
    partitions: Partitions
    arms: dict[Name, ArmSpec]
    schedule: Schedule
    measurements: list[Literal["generation", "memory"]]
    limits: Limits
    predictions: list[Prediction] = Field(default_factory=list)
    selection: Selection | None = None
    notes: str | None = None

    @field_validator("arms")
    @classmethod
    def _in_one_order(cls, arms: dict[str, ArmSpec]) -> dict[str, ArmSpec]:
        """Canonical JSON forgets the order of keys, so it is always: pristine first, then names."""
        roles = ("pristine", "patched", "control")
        return dict(sorted(arms.items(), key=lambda item: (roles.index(item[1].role), item[0])))
