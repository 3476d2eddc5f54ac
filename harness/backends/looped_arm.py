"""An arm of a looped model: what a plan says about caching and decoding, ready to run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.backends.base import Counters

if TYPE_CHECKING:
    from harness.looped.generation import Decode, Generation, Sampling
    from harness.looped.model import LoopedLM
    from harness.looped.policies import Policy
    from harness.looped.waves import Wavefront


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws at a temperature; an item's seed follows from the plan's and its name.

    `known` counts the tokens that have a text; ids from there on pad the vocabulary.
    """

    temperature: float
    top_p: float
    seed: int
    known: int

    def sampling(self, items: Sequence[str]) -> Sampling:
        """The draws of these items, whatever batch they stand in."""
        from harness.looped.generation import Sampling

        return Sampling(self.temperature, tuple(map(self._seed_of, items)), self.top_p, self.known)

    def _seed_of(self, item: str) -> int:
        digest = hashlib.sha256(f"{self.seed}/{item}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class Arm:
    """Policy, decoder, depth and limits of an arm; `stop` are token ids."""

    policy: Policy
    prefill: str
    decode: Decode | Wavefront
    loops: int
    max_tokens: int
    stop: tuple[int, ...]
    budget: int | None = None
    draws: Draws | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the tokens are those of sequential decoding under the same policy."""
        from harness.looped.wave_memory import FULL_PLANES
        from harness.looped.waves import RESTART, Wavefront

        decode = self.decode
        if not isinstance(decode, Wavefront):
            return True
        if decode.inner == self.loops and decode.headway == 1:
            return True
        early = decode.exit_change > 0
        return decode.planes == FULL_PLANES and decode.on_change == RESTART and not early

    def check(self, model: LoopedLM) -> None:
        """Raise LoopedError where policy, decoder, draws, depth and model do not fit together."""
        from harness.looped.decode import check_mode, choice_of
        from harness.looped.waves import Wavefront, check_inner

        self.policy.check(model.config)
        if isinstance(self.decode, Wavefront):
            check_inner(self.decode, self.loops)
        else:
            check_mode(self.policy, self.decode, self.loops)
        if self.draws is not None:
            choice_of(self.draws.sampling([""]), 1)

    def greedy(self, *, max_tokens: int) -> Arm:
        """The same arm without draws and budget."""
        return replace(self, draws=None, budget=None, max_tokens=max_tokens)

    def run(
        self, model: LoopedLM, prompts: Sequence[Sequence[int]], items: Sequence[str] = ()
    ) -> tuple[Generation, Counters]:
        """Decode token id prompts in one batch; `items` name them where draws are wanted.

        Returns what was decoded and the work of the whole batch: passes, and what they cost in
        loops and in tokens times loops. Raises LoopedError as `generate` and `wavefront` do.
        """
        from harness.looped.decode import generate
        from harness.looped.waves import Wavefront

        if isinstance(self.decode, Wavefront):
            return _waved(self, self.decode, model, prompts)
        found = generate(
            model,
            prompts,
            policy=self.policy,
            prefill=self.prefill,
            decode=self.decode,
            loops=self.loops,
            max_tokens=self.max_tokens,
            stop=self.stop,
            start="keyed",
            sampling=None if self.draws is None else self.draws.sampling(items),
            budget=self.budget,
        )
        return found, _work(self.decode, found, self.loops)


def arm_of(
    arm: dict[str, Any],
    model: dict[str, Any],
    *,
    max_tokens: int,
    stop: Sequence[int],
    known: int,
) -> Arm:
    """Return the arm that a plan describes, in the plan's canonical JSON.

    `known` is the number of tokens that have a text.
    Raises LoopedError (a ValueError) for numbers that a policy or a decoder does not take.
    """
    cache, decode = arm["cache"], arm["decode"]
    return Arm(
        policy=policy_of(cache),
        prefill=cache["prefill"],
        decode=decode_of(decode, cache),
        loops=arm.get("loops") or model["loops"],
        max_tokens=max_tokens,
        stop=tuple(stop),
        budget=cache.get("budget_bytes"),
        draws=_draws(decode, known),
    )


def policy_of(cache: dict[str, Any]) -> Policy:
    """Return the policy that a plan names."""
    from harness.looped import policies

    match cache["policy"]:
        case "full":
            return policies.full()
        case "deepest":
            return policies.deepest()
        case "ripe":
            return policies.ripe(cache["window"])
        case "first_loops":
            return policies.first_loops(cache["planes"])
        case "last_planes":
            return policies.last_loops(cache["planes"])
        case "every_mth":
            return policies.every_nth(cache["every"])
        case "sinks_ripe":
            return policies.sinks_ripe(cache["sinks"], cache["window"])
        case "second_plane":
            return policies.second_plane(cache["plane"], cache["window"])
        case "per_head":
            return policies.per_head(tuple(cache["windows"]))
        case "compress":
            return policies.compress(cache["slots"])
        case other:
            raise ValueError(f"cache.policy: {other!r} is not known")


def decode_of(decode: dict[str, Any], cache: dict[str, Any]) -> Decode | Wavefront:
    """Return the decoder that a plan names."""
    from harness.looped.generation import Sequential, Speculative
    from harness.looped.wave_memory import FULL_PLANES, SHARED_PLANES
    from harness.looped.waves import Wavefront

    if decode["kind"] == "sequential":
        return Sequential()
    if decode["kind"] == "wavefront":
        planes = FULL_PLANES if cache["policy"] == "full" else SHARED_PLANES
        return Wavefront(planes=planes, **decode["wave"])
    reads = decode.get("draft_reads") or "deepest"
    return Speculative(
        decode["draft_loops"], decode["draft_tokens"], reads, bool(decode.get("reuse"))
    )


def claims(arm: dict[str, Any], model: dict[str, Any]) -> list[str]:
    """Return what an arm changes beside plain full-cache decoding at the model's depth."""
    found = []
    if arm["cache"]["policy"] != "full":
        found.append(arm["cache"]["policy"])
    if arm["decode"]["kind"] != "sequential":
        found.append(arm["decode"]["kind"])
    if arm["decode"].get("reuse"):
        found.append("reuse")
    if arm.get("loops") not in (None, model["loops"]):
        found.append(f"loops_{arm['loops']}")
    return found


def _draws(decode: dict[str, Any], known: int) -> Draws | None:
    if decode.get("temperature") is None:
        return None
    return Draws(decode["temperature"], decode.get("top_p") or 1.0, decode.get("seed") or 0, known)


def _work(decode: Decode, found: Generation, loops: int) -> Counters:
    """Drafts whose loops are reused cost what verification then saves, a catch-up pass aside."""
    from harness.looped.generation import Speculative

    totals, verified = found.counters, found.counters.verify_passes
    loop_passes = token_loops = verified * loops
    if isinstance(decode, Speculative):
        drafts = totals.draft_passes * decode.draft_loops
        rounds = totals.draft_passes // decode.draft_tokens
        loop_passes += drafts
        token_loops = rounds * (decode.draft_tokens + 1) * loops
        token_loops += 0 if decode.reuse else drafts
    return {
        "passes": verified,
        "draft_passes": totals.draft_passes,
        "loop_passes": loop_passes,
        "token_loops": len(found.rows) * token_loops,
    }


def _waved(
    arm: Arm, mode: Wavefront, model: LoopedLM, prompts: Sequence[Sequence[int]]
) -> tuple[Generation, Counters]:
    """Waves as a generation; what rows hold is by the formula of the policy."""
    from harness.looped import generation
    from harness.looped.memory import cache_bytes
    from harness.looped.waves import wavefront

    found = wavefront(
        model,
        prompts,
        mode,
        loops=arm.loops,
        max_tokens=arm.max_tokens,
        stop=arm.stop,
        start="keyed",
        budget=arm.budget,
    )
    rows = []
    for tokens in found.tokens:
        reason = generation.STOP if tokens[-1] in arm.stop else generation.LENGTH
        row_counters = generation.Counters(verify_passes=found.steps)
        rows.append(generation.Row(tokens, reason, row_counters))
    size = model.dtype.itemsize
    held = sum(
        cache_bytes(model.config, arm.policy, len(prompt) + len(tokens) - 1, arm.loops, size)
        for prompt, tokens in zip(prompts, found.tokens, strict=True)
    )
    whole = generation.Generation(
        rows=tuple(rows),
        prefill=found.prefill,
        decode=found.decode,
        total=found.total,
        counters=generation.Counters(verify_passes=found.steps),
        cache_held_bytes=held,
        cache_peak_bytes=found.allocated_bytes,
        cache_allocated_bytes=found.allocated_bytes,
    )
    work = {"passes": found.steps, "draft_passes": 0, "loop_passes": found.steps * mode.inner}
    return whole, {**work, "token_loops": found.token_loops}
