"""The backend protocol and its wire: one JSON object per line, request and reply in turn.

A worker may live in an environment without the harness's dependencies, so that this module, `fake`
and `table` import only the standard library.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Protocol, TypedDict

PROTOCOL = 1
PROBE = "Question: Tom has 7 pens and buys 5 more. How many pens is that?\nAnswer:"
"""The prompt whose next tokens' log-probs show what an engine runs."""
PROBE_TOKENS = 16

Status = Literal["ok", "timeout", "error", "nan", "oom"]
Counters = dict[str, int]


class Hello(TypedDict):
    """First request: everything that the engine needs to load the arm."""

    protocol: int
    arm: dict[str, Any]
    """The arm as in the plan's canonical JSON: role, cache, decode, options, …"""
    model: dict[str, Any]
    task: dict[str, Any]
    """max_tokens and stop."""
    threads: int
    seed: str


class PatchClaim(TypedDict):
    """Whether the engine says that it is patched; who claims must move counters in every visit."""

    claims: bool
    name: str | None


class HelloReply(TypedDict):
    """What runs, for the journal; it holds neither host names nor absolute paths."""

    backend: str
    versions: dict[str, str]
    device: str
    patch: PatchClaim
    engine: NotRequired[dict[str, Any]]
    """What else decides what is measured, such as a server's resolved arguments."""


class ProbeReply(TypedDict):
    """Proof of being patched or pristine: log-probs of a fixed input, and the patch's counters."""

    fingerprint: list[float] | None
    counters: Counters


class ResetReply(TypedDict):
    """Entries that survive in any cache after the reset."""

    cache_entries: int


class PromptItem(TypedDict):
    """One prompt of a batch."""

    id: str
    prompt: str


class Generate(TypedDict):
    """One visit: a frozen batch of prompts; an item gets `timeout_s` from the visit's start."""

    id: int
    items: list[PromptItem]
    timeout_s: float


class Result(TypedDict):
    """What the engine made of one item."""

    item: str
    status: Status
    token_ids: list[int]
    text: str
    prompt_tokens: int
    finish: Literal["stop", "length"]
    counters: Counters
    cache_bytes: int
    error: NotRequired[str]
    """Why an item failed where others of its batch did not; one line."""
    near_ties: NotRequired[list[list[float]]]
    """[place, margin] of every token whose top-2 margin rounding could have turned."""


class Timing(TypedDict):
    """Durations in nanoseconds around device synchronisation; CPU time is the compute threads'."""

    prefill_ns: int
    decode_ns: int
    total_ns: int
    prefill_cpu_ns: int
    decode_cpu_ns: int
    total_cpu_ns: int


class CacheUse(TypedDict):
    """What the caches held before the visit, how many prompts they served, and their peak."""

    entries_before: int
    hits: int
    peak_bytes: int


class Generated(TypedDict):
    """Reply to one visit."""

    results: list[Result]
    timing: Timing
    cache: CacheUse
    counters: NotRequired[Counters]
    """Work of the whole batch, such as passes and loops."""
    patch_counters: NotRequired[Counters]


class Check(TypedDict):
    """One invariant of an engine's self-test; further fields are kept."""

    name: str
    ok: bool
    detail: str


class Backend(Protocol):
    """An engine that answers the five requests; exceptions become one-line error replies.

    An engine may also have `selftest(prompts: list[str]) -> list[Check]`; its worker then says so
    in the reply to `hello` and answers {"op": "selftest", "prompts": […]} with {"checks": […]}.
    A worker that says `profile` there answers {"op": "profile", …} as `generate`, but with
    {"tool": …, "rows": [{name, calls, self_ns, total_ns}]}; `serve` does it for every engine. Where
    the request names `"tool": "ncu"`, Nsight Compute looks from outside: the worker only brackets
    the visit with cudaProfilerStart and cudaProfilerStop.
    """

    def hello(self, request: Hello) -> HelloReply:
        """Load the arm."""
        ...

    def probe(self) -> ProbeReply:
        """Show what is being run."""
        ...

    def reset(self) -> ResetReply:
        """Empty every cache that would survive a visit."""
        ...

    def generate(self, request: Generate) -> Generated:
        """Run one visit."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


class BackendError(Exception):
    """An engine's refusal that keeps its kind on the wire: `oom`, `value` or `bug`."""

    def __init__(self, kind: Literal["oom", "value", "bug"], message: str) -> None:
        super().__init__(message)
        self.kind = kind
