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

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class ModelSpec(Part):
    """Which checkpoint an arm runs."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-/]{1,200}$")]
    """An embedded model (`tiny_ripe`) or a local folder in a published layout."""
    loops: Positive
    """Loops of the core at full depth, R."""
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    """Type of weights, activations and cache."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the engine runs."""


class TaskSpec(Part):
    """How an item becomes a prompt and when its answer ends."""

    max_tokens: Positive
    """Answer tokens after which generation is cut."""
    stop: str = "\n"
    """Generation ends with the token that completes this text."""


class Partitions(Part):
    """Disjoint sets of items, drawn by a seeded rule from the bucket of the same name."""

    source: Name
    """An item source by name."""
    seed: str
    """Text that keys the draw of explore and select items."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the item source, such as its difficulty."""
    explore: Natural = 0
    """Items for A/A, warm-up and everything that is not scored."""
    select: Natural = 0
    """Items of a selection; drawn by the seed."""
    confirm: Natural = 0
    """Items of a confirmation; drawn at freeze from plan digest and nonce."""


class CacheSpec(Part):
    """Which planes a read sees, and how the prompt is run."""

    policy: Literal[
        "full",
        "deepest",
        "ripe",
        "first_loops",
        "last_planes",
        "every_mth",
        "sinks_ripe",
        "second_plane",
        "per_head",
        "compress",
    ]
    """full: own plane; deepest: plane R; ripe: own plane within the window, plane R beyond.
    first_loops: planes 1..k, later loops read plane k; last_planes: the last k, earlier loops read
    the first of them; every_mth: planes R, R − m, …, a loop reads the next one from it on;
    sinks_ripe: ripe, and own plane for the first positions; second_plane: ripe, where loops up to a
    plane read that one; per_head: ripe with a window for each KV head; compress: upstream's slots.
    Each takes the options that name it below, and needs all of them."""
    window: Natural | Selected | None = None
    """W of ripe, sinks_ripe and second_plane: how many *earlier* positions are read at their own
    plane."""
    prefill: Literal["exact", "full_prompt"] = "full_prompt"
    """exact: passes of at most W + 1 tokens; full_prompt: the prompt at full depth in one pass."""
    planes: Positive | None = None
    """k of first_loops and last_planes: how many planes are kept."""
    every: Positive | None = None
    """m of every_mth."""
    sinks: Natural | None = None
    """Of sinks_ripe: how many first positions keep all their planes."""
    plane: Positive | None = None
    """Of second_plane: the plane kept beside plane R."""
    windows: list[Natural] | None = None
    """Of per_head: W for each KV head."""
    slots: Positive | None = None
    """S of compress, a multiple of 4; for 2 prelude and 4 core layers only."""
    budget_bytes: Positive | None = None
    """Bytes that a visit's cache may allocate; where it needs more, the visit's outcome is oom."""


class WaveSpec(Part):
    """How waves move: tokens at different depths advance together (`harness.looped.waves`)."""

    inner: Positive
    """Loops of every position a step; a divisor of the arm's loops."""
    headway: Positive = 1
    """New positions a step."""
    longest: Positive = 128
    """Most positions in flight."""
    on_change: Literal["continue", "restart"] = "continue"
    """What a position does when the token before it turns out another: go on from its state, or
    start again, which with cache.policy full is exact."""
    exit_change: Annotated[float, Field(ge=0)] = 0.0
    """Freeze early where a step changes the state by less than this share; 0 never does."""


class DecodeSpec(Part):
    """Sequential, self-speculative or diagonal decoding, greedy unless a temperature is set."""

    kind: Literal["sequential", "speculative", "wavefront"]
    """One token a pass; drafts of few loops verified together; or waves, which take cache.policy
    full (own planes) or deepest (one shared plane), and draw nothing."""
    draft_loops: Positive | Selected | None = None
    """Loops of a draft, d."""
    draft_tokens: Positive | Selected | None = None
    """Drafts verified together, γ."""
    draft_reads: Literal["deepest", "policy"] | None = None
    """What drafts read of earlier positions: plane R (the default), or what the policy says."""
    reuse: bool | None = None
    """Whether verification resumes after the drafts' loops; needs draft_reads policy, and W ≥ γ."""
    wave: WaveSpec | None = None
    """Of wavefront."""
    temperature: Annotated[float, Field(gt=0)] | None = None
    """Tokens are drawn at this temperature; unset: the most likely token is taken."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Draws are from the fewest tokens that have this much of the chance."""
    seed: Natural | None = None
    """Keys the draws, with the item: a row's draws do not depend on its batch (default 0)."""


ProjectFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_.\-]+)*$")]
"""A path below the project's folder."""


class GitSource(Part):
    """One commit of a repository that can be installed."""

    repository: Annotated[str, Field(pattern=r"^(https://[^\s@]+|[A-Za-z0-9_.\-/]+)$")]
    """A URL without credentials, or a folder of the project."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """The whole commit id, quoted."""


class SourcePatch(Part):
    """A diff against an installed package's source, applied to the arm's own copy."""

    package: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Its import name; copied from the harness's environment where the arm's lacks it."""
    diff: ProjectFile
    """Paths in it start at the folder that holds the package, with one prefix (a/, b/)."""


class EnvironmentSpec(Part):
    """The arm's own Python environment, built by `harness env create`; unset: the harness's own."""

    recipe: Literal["sglang"] | None = None
    """An engine whose lock file ships with the harness; `harness env create sglang` builds it."""
    python: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")] | None = None
    """An interpreter by name, such as python3.12; by default the harness's."""
    lock: ProjectFile | None = None
    """Requirements with versions and hashes."""
    git: GitSource | None = None
    """A commit that is installed."""
    wheels: list[ProjectFile] | None = None
    """Wheels of the project, installed without what they depend on."""
    source: SourcePatch | None = None
    """A diff that is applied last."""
    tree: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """What `harness env create` must yield; printed by it."""


class ArmSpec(Part):
    """A named treatment: backend, environment and options."""

    role: Literal["pristine", "patched", "control"]
    """pristine: the reference; patched: what is claimed; control: an arm that must be caught."""
    backend: Name
    """looped, sglang, http, fake or process."""
    cache: CacheSpec | None = None
    decode: DecodeSpec | None = None
    loops: Positive | None = None
    """Loops of this arm where they differ from the model's."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the backend, see its page; `looped` has none."""
    patch: list[str] = Field(default_factory=list)
    """Project files that make up the patch; copied and hashed at freeze."""
    environment: EnvironmentSpec | None = None
    """Where its workers run; by default the harness's own environment."""


class Schedule(Part):
    """Blocks, the order of visits within them, launches and the A/A control."""

    design: Literal["abba_baab", "williams"]
    """abba_baab: the pair palindromically, others between; williams: every arm once."""
    pair: tuple[Name, Name] | None = None
    """The arms visited in ABBA/BAAB order; by default pristine and the first patched one."""
    block_items: Positive
    """Items of a block; a block is one frozen batch."""
    blocks: Positive
    """Planned blocks, without spares."""
    spare_blocks: Natural = 0
    """Blocks that may replace interrupted ones, in order."""
    warmup_visits: Natural = 1
    """Unscored visits of the measured shape after every process start."""
    aa_blocks: Natural = 0
    """Blocks of the A/A control: two separately started pristine workers."""
    launches_per_arm: Positive = 1
    """Process starts per arm, so that process and arm are not confounded."""
    residency: Literal["shared", "exclusive"] = "shared"
    """shared: all arms stay loaded; exclusive: a restart before every visit."""
    threads: Positive = 1
    """Threads of each worker."""
    profile: bool | None = None
    """Whether every arm is profiled on explore items after the scored blocks; never scored."""


class Limits(Part):
    """Frozen limits; crossing one voids a block or the run, by rule and never by eye."""

    item_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds for one item; beyond, it counts as wrong with at least this time."""
    block_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds for one visit; beyond, the worker is ended and the time counts."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds for a worker to become ready."""
    cache_hit_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Largest share of prompts that a surviving cache may serve before the block is void."""
    interrupted_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Largest share of interrupted blocks before timing predictions are void."""
    void_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Largest share of void blocks before every prediction is void."""
    aa_ratio: Annotated[float, Field(gt=0)] = 0.1
    """δ: the A/A log ratio's interval must lie within ±δ."""
    clock_drop: Annotated[float, Field(gt=0, lt=1)] | None = None
    """A visit whose clock falls by more than this share of the run's highest voids its block."""
    foreign_load: Annotated[float, Field(ge=0)] | None = None
    """So do more cores than this, on average, that other processes keep busy (on CUDA: more other
    processes on the device)."""


class Estimand(Part):
    """What a prediction is about. There are no defaults for the cluster."""

    kind: Literal[
        "log_ratio",
        "ratio_of_sums",
        "mean_diff",
        "agreement",
        "rate",
        "mcnemar",
        "model_ratio",
    ]
    """What is estimated; see `harness.analysis`. A mcnemar is its p-value; a model_ratio is what
    was measured over what a model of it predicts."""
    of: Name
    """A measured quantity, e.g. decode_cpu_seconds, correct, tokens, cache_bytes, accepted."""
    per: Name | None = None
    """Denominator of a `rate`, e.g. drafted."""
    arms: tuple[Name, Name] = ("pristine", "patched")
    """Baseline and treated arm; a `rate` is about the second."""
    cluster: Literal["item", "block"]
    """The unit of inference: item for quality, block for time."""


Bound = Annotated[float, Field()] | None


class Prediction(Part):
    """A typed claim with a decision rule; its level follows from the family."""

    id: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9_]{0,15}$")]
    """Short and stable: verdicts are looked up by it."""
    claim: str
    """The claim in words, as it will be printed beside its verdict."""
    estimand: Estimand
    region: tuple[Bound, Bound]
    """Where the estimand is predicted to lie; null leaves an end open to infinity."""
    open: bool = False
    """Whether the region's ends are excluded."""
    rule: Literal["ci", "point"] = "ci"
    """ci: the whole interval decides; point: the estimate alone."""
    family: Literal["primary", "secondary", "descriptive", "control"]
    """Decides the level: primaries share 5 %, others have 5 % each, a control must fail."""
    confidence: Annotated[float, Field(ge=0, le=1)]
    """The author's probability that the prediction holds."""
    min_clusters: Annotated[int, Field(ge=2)]
    """Clusters below which the prediction is void."""
    margin_reason: str | None = None
    """Why the margin of a no-loss claim is what it is."""
    informed_by: str | None = None
    """What the author had seen before freezing."""


class Metric(Part):
    """A metric with a bound, for selection."""

    metric: Name
    """A figure of the arm, as in its summary."""
    at_least: float | None = None
    """Smallest admissible value."""
    at_most: float | None = None
    """Largest admissible value."""


class SelectionRule(Part):
    """Maximise or minimise one metric subject to constraints; ties go to the earlier candidate."""

    maximize: Name | None = None
    """The metric to maximise, or none."""
    minimize: Name | None = None
    """The metric to minimise, or none."""
    subject_to: list[Metric] = Field(default_factory=list)
    """Constraints that a candidate must meet."""


class Candidate(Part):
    """An arm of the selection plan and the options it stands for."""

    arm: Name
    """An arm of the selection plan."""
    window: Natural | None = None
    """W that it stands for."""
    draft_loops: Positive | None = None
    """d that it stands for."""
    draft_tokens: Positive | None = None
    """γ that it stands for."""


class Selection(Part):
    """How `harness freeze` fills in every option that says `selected`."""

    source: Name = Field(alias="from")
    """The plan whose sealed registered run the rule reads."""
    candidates: list[Candidate]
    rule: SelectionRule
    chosen: Name | None = None
    """Filled in by freeze."""

    model_config = ConfigDict(populate_by_name=True)


class Plan(Part):
    """One experiment."""

    plan: Name
    """The name of its file."""
    study: Name
    """The line of inquiry; it owns one ledger."""
    stage: Literal["explore", "select", "confirm"]
    """explore is never frozen; select and confirm are, before they run."""
    question: Name
    """What a lock is meant to answer; attempts are counted per question."""
    title: str
    """One line for people."""
    model: ModelSpec
    task: TaskSpec
    partitions: Partitions
    arms: dict[Name, ArmSpec]
    schedule: Schedule
    measurements: list[Literal["generation", "memory"]]
    """What trials record."""
    limits: Limits
    predictions: list[Prediction] = Field(default_factory=list)
    selection: Selection | None = None
    notes: str | None = None
    """Free text; hashed like everything else."""

    @field_validator("arms")
    @classmethod
    def _in_one_order(cls, arms: dict[str, ArmSpec]) -> dict[str, ArmSpec]:
        """Canonical JSON forgets the order of keys, so it is always: pristine first, then names."""
        roles = ("pristine", "patched", "control")
        return dict(sorted(arms.items(), key=lambda item: (roles.index(item[1].role), item[0])))
