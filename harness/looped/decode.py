"""Decoding of a batch: sequential or self-speculative, greedy or sampled, per row."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from harness.looped.cache import PlaneCache
from harness.looped.choices import Choice, Greedy, Sampled
from harness.looped.clock import Stopwatch, between
from harness.looped.engine import Engine
from harness.looped.errors import PolicyError
from harness.looped.generation import (
    EXACT,
    PREFILLS,
    Counters,
    Decode,
    Generation,
    Sampling,
    Sequential,
    Speculative,
    room_for,
)
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, full
from harness.looped.start import ZERO
from harness.looped.writer import Writer


def generate(
    model: LoopedLM,
    prompts: Sequence[Sequence[int]],
    *,
    policy: Policy | None = None,
    prefill: str = EXACT,
    decode: Decode | None = None,
    loops: int | None = None,
    max_tokens: int = 128,
    stop: Collection[int] = (),
    start: str = ZERO,
    seed: int = 0,
    sampling: Sampling | None = None,
    budget: int | None = None,
) -> Generation:
    """Continuations of token id prompts, all in one batch; greedy unless `sampling` says how.

    Rows are independent: each has its own length, acceptance and end. `budget` limits the bytes
    that the cache may allocate. Raises PolicyError or LoopedError for an empty prompt, an unknown
    option, or rows beyond the model's length, and BudgetError before anything is allocated.
    """
    mode = decode or Sequential()
    rule = policy or full()
    count = model.loops(loops)
    _check(model, prompts, prefill, mode, max_tokens)
    check_mode(rule, mode, count)
    choice = choice_of(sampling, len(prompts))
    room = room_for([len(prompt) for prompt in prompts], max_tokens, mode)
    cache = PlaneCache(
        model,
        rule,
        rows=len(prompts),
        capacity=room.capacity,
        loops=count,
        longest_pass=room.longest_pass,
        reach=room.reach,
        budget=budget,
    )
    writers = [Writer(max_tokens, stop) for _ in prompts]
    with torch.inference_mode():
        watch = Stopwatch(model.device)
        engine = Engine(model, cache, choice, capacity=room.capacity, start=start, seed=seed)
        for writer, token, gaps in zip(
            writers, engine.prefill(prompts, prefill), engine.gaps, strict=True
        ):
            writer.add([token], gaps)
        prefilled = watch.read()
        totals = _decode(engine, writers, mode)
        end = watch.read()
    held = cache.formula_bytes()
    return Generation(
        rows=tuple(writer.row() for writer in writers),
        prefill=prefilled,
        decode=between(prefilled, end),
        total=end,
        counters=totals,
        cache_held_bytes=held,
        cache_peak_bytes=max(held, engine.peak_bytes),
        cache_allocated_bytes=cache.allocated_bytes(),
    )


def _decode(engine: Engine, writers: list[Writer], mode: Decode) -> Counters:
    totals = Counters()
    for writer in writers:
        if isinstance(mode, Speculative):
            writer.counters.tried = [0] * mode.draft_tokens
            writer.counters.kept = [0] * mode.draft_tokens
            engine.keeping = mode.reuse
    while any(writer.open for writer in writers):
        if isinstance(mode, Speculative):
            _speculate(engine, writers, mode, totals)
        else:
            _step(engine, writers, totals)
    totals.loops_run = engine.loops_run
    for writer in writers:
        totals.drafted += writer.counters.drafted
        totals.accepted += writer.counters.accepted
    if isinstance(mode, Speculative):
        places = range(mode.draft_tokens)
        totals.tried = [sum(w.counters.tried[k] for w in writers) for k in places]
        totals.kept = [sum(w.counters.kept[k] for w in writers) for k in places]
    return totals


def _step(engine: Engine, writers: list[Writer], totals: Counters) -> None:
    """One sequential pass: the pending token of each open row in, the next one out."""
    chosen = engine.step([[writer.pending] for writer in writers])
    engine.cache.commit([int(writer.open) for writer in writers])
    totals.verify_passes += 1
    for writer, tokens, gaps in zip(writers, chosen, engine.gaps, strict=True):
        if writer.open:
            writer.counters.verify_passes += 1
            writer.add(tokens, gaps)


def _speculate(engine: Engine, writers: list[Writer], mode: Speculative, totals: Counters) -> None:
    """One round: drafts, verification, and acceptance row by row."""
    rows = [[writer.pending] for writer in writers]
    for ahead in range(mode.draft_tokens):
        last = [row[-1] for row in rows]
        new = engine.draft(
            last, mode.draft_loops, deepest=mode.draft_policy == "deepest", ahead=ahead
        )
        rows = [[*row, token] for row, token in zip(rows, new, strict=True)]
    totals.draft_passes += mode.draft_tokens
    guesses = [[*row[1:], None] for row in rows]
    if mode.reuse:
        verified, gaps = engine.resume(rows, guesses, mode.draft_loops), engine.gaps
        totals.verify_passes += 1
    else:
        verified, gaps = _verify(engine, rows, guesses, totals)
    counts = [
        writer.accept(row[1:], chosen, gap)
        for writer, row, chosen, gap in zip(writers, rows, verified, gaps, strict=True)
    ]
    for writer in writers:
        writer.counters.draft_passes += mode.draft_tokens
    engine.cache.commit(counts)


def _verify(
    engine: Engine, rows: list[list[int]], guesses: list[list[int | None]], totals: Counters
) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens after each place of the rows and their gaps, in passes the policy allows.

    Between sub-passes everything is committed for the moment, and taken back at the end.
    """
    chunk = engine.cache.longest_pass
    length = len(rows[0])
    before = list(engine.cache.lengths)
    chosen: list[list[int]] = [[] for _ in rows]
    gaps: list[list[float]] = [[] for _ in rows]
    for begin in range(0, length, chunk):
        part = [row[begin : begin + chunk] for row in rows]
        known = [guess[begin : begin + chunk] for guess in guesses]
        for out, new in zip(chosen, engine.verify(part, known, begin), strict=True):
            out.extend(new)
        for old, more in zip(gaps, engine.gaps, strict=True):
            old.extend(more)
        engine.cache.commit([len(part[0])] * len(rows))
        totals.verify_passes += 1
    engine.cache.lengths = before
    return chosen, gaps


def choice_of(sampling: Sampling | None, rows: int) -> Choice:
    """How tokens are chosen. Raises PolicyError for options that do not fit the rows."""
    if sampling is None:
        return Greedy()
    if len(sampling.seeds) != rows:
        raise PolicyError(
            f"seeds: found {len(sampling.seeds)}, expected one for each of {rows} rows"
        )
    return Sampled(sampling.temperature, sampling.seeds, sampling.top_p, sampling.known)


def check_mode(policy: Policy, mode: Decode, loops: int) -> None:
    """Raise PolicyError where a decoder does not fit a policy or a depth."""
    if not isinstance(mode, Speculative):
        return
    if mode.draft_loops >= loops:
        raise PolicyError(
            f"draft_loops: found {mode.draft_loops}, expected fewer than the {loops} loops"
        )
    longest = policy.longest_pass
    if mode.reuse and longest is not None and longest <= mode.draft_tokens:
        raise PolicyError(
            f"reuse: found {mode.draft_tokens} draft tokens under {policy.label}, expected at most "
            f"its window of {longest - 1}; beyond it, drafts and verification read other planes"
        )


def _check(
    model: LoopedLM,
    prompts: Sequence[Sequence[int]],
    prefill: str,
    mode: Decode,
    max_tokens: int,
) -> None:
    if not prompts or not all(prompts):
        raise PolicyError("prompts: found an empty one or none, expected at least one token each")
    if prefill not in PREFILLS:
        raise PolicyError(f"prefill: found '{prefill}', expected one of {', '.join(PREFILLS)}")
    if max_tokens < 1:
        raise PolicyError(f"max_tokens: found {max_tokens}, expected at least 1")
    vocab = model.config.vocab
    worst = max(max(p) for p in prompts), min(min(p) for p in prompts)
    if worst[0] >= vocab or worst[1] < 0:
        raise PolicyError(f"prompts: found token {worst}, expected ids in 0..{vocab - 1}")
    extra = mode.draft_tokens if isinstance(mode, Speculative) else 0
    model.check_length(max(map(len, prompts)) + max_tokens + extra)
