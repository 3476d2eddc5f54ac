"""Greedy decoding of a batch: sequential or self-speculative, per row."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from harness.looped.cache import PlaneCache
from harness.looped.clock import Stopwatch, between
from harness.looped.engine import NOT_A_NUMBER, Engine
from harness.looped.errors import PolicyError
from harness.looped.generation import (
    EXACT,
    LENGTH,
    NAN,
    NEAR,
    PREFILLS,
    STOP,
    Counters,
    Decode,
    Generation,
    Row,
    Sequential,
    Speculative,
)
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, full
from harness.looped.start import ZERO

_PREFILL_CHUNK = 256


class Writer:
    """The growing answer of one row."""

    def __init__(self, limit: int, stop: Collection[int]) -> None:
        self.tokens: list[int] = []
        self.reason: str | None = None
        self.counters = Counters()
        self.near_ties: list[tuple[int, float]] = []
        self._limit = limit
        self._stop = stop

    @property
    def open(self) -> bool:
        """Whether the row still grows."""
        return self.reason is None

    def add(self, tokens: Sequence[int], gaps: Sequence[float]) -> int:
        """Take tokens up to the end of the row; return how many were taken."""
        for count, (token, gap) in enumerate(zip(tokens, gaps, strict=True), 1):
            if token == NOT_A_NUMBER:
                self.reason = NAN
                return count - 1
            if gap < NEAR:
                self.near_ties.append((len(self.tokens), gap))
            self.tokens.append(token)
            if token in self._stop:
                self.reason = STOP
            elif len(self.tokens) == self._limit:
                self.reason = LENGTH
            if self.reason is not None:
                return count
        return len(tokens)


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
) -> Generation:
    """Greedy continuations of token id prompts, all in one batch.

    Rows are independent: each has its own length, acceptance and end. Raises PolicyError or
    LoopedError for an empty prompt, an unknown option, or rows beyond the model's length.
    """
    mode = decode or Sequential()
    count = model.loops(loops)
    _check(model, prompts, prefill, mode, count, max_tokens)
    longest = mode.draft_tokens + 1 if isinstance(mode, Speculative) else 1
    capacity = max(map(len, prompts)) + max_tokens + longest
    cache = PlaneCache(
        model,
        policy or full(),
        rows=len(prompts),
        capacity=max(capacity, _PREFILL_CHUNK),
        loops=count,
        longest_pass=max(longest, min(_PREFILL_CHUNK, max(map(len, prompts)))),
        reach=longest,
    )
    writers = [Writer(max_tokens, stop) for _ in prompts]
    with torch.inference_mode():
        watch = Stopwatch(model.device)
        engine = Engine(model, cache, capacity=capacity, start=start, seed=seed)
        for writer, token, gaps in zip(
            writers, engine.prefill(prompts, prefill), engine.gaps, strict=True
        ):
            writer.add([token], gaps)
        prefilled = watch.read()
        totals = _decode(engine, writers, mode)
        end = watch.read()
    rows = tuple(
        Row(tuple(w.tokens), w.reason or LENGTH, w.counters, tuple(w.near_ties)) for w in writers
    )
    held = cache.formula_bytes()
    return Generation(
        rows, prefilled, between(prefilled, end), end, totals, held, max(held, engine.peak_bytes)
    )


def _decode(engine: Engine, writers: list[Writer], mode: Decode) -> Counters:
    totals = Counters()
    for writer in writers:
        if isinstance(mode, Speculative):
            writer.counters.tried = [0] * mode.draft_tokens
            writer.counters.kept = [0] * mode.draft_tokens
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
    chosen = engine.verify([[_pending(writer)] for writer in writers])
    engine.cache.commit([int(writer.open) for writer in writers])
    totals.verify_passes += 1
    for writer, tokens, gaps in zip(writers, chosen, engine.gaps, strict=True):
        if writer.open:
            writer.counters.verify_passes += 1
            writer.add(tokens, gaps)


def _speculate(engine: Engine, writers: list[Writer], mode: Speculative, totals: Counters) -> None:
    """One round: drafts, verification, and acceptance row by row."""
    drafts = [[_pending(writer)] for writer in writers]
    for ahead in range(mode.draft_tokens):
        last = [row[-1] for row in drafts]
        new = engine.draft(
            last, mode.draft_loops, deepest=mode.draft_policy == "deepest", ahead=ahead
        )
        drafts = [[*row, token] for row, token in zip(drafts, new, strict=True)]
    totals.draft_passes += mode.draft_tokens
    verified, gaps = _verify(engine, drafts, totals)
    counts = [
        _accept(writer, row[1:], chosen, gap)
        for writer, row, chosen, gap in zip(writers, drafts, verified, gaps, strict=True)
    ]
    for writer in writers:
        writer.counters.draft_passes += mode.draft_tokens
    engine.cache.commit(counts)


def _verify(
    engine: Engine, rows: list[list[int]], totals: Counters
) -> tuple[list[list[int]], list[list[float]]]:
    """Greedy tokens after each place of the rows and their gaps, in passes the policy allows.

    Between sub-passes everything is committed for the moment, and taken back at the end.
    """
    chunk = engine.cache.longest_pass
    length = len(rows[0])
    before = list(engine.cache.lengths)
    chosen: list[list[int]] = [[] for _ in rows]
    gaps: list[list[float]] = [[] for _ in rows]
    for begin in range(0, length, chunk):
        part = [row[begin : begin + chunk] for row in rows]
        for out, new in zip(chosen, engine.verify(part), strict=True):
            out.extend(new)
        for known, more in zip(gaps, engine.gaps, strict=True):
            known.extend(more)
        engine.cache.commit([len(part[0])] * len(rows))
        totals.verify_passes += 1
    engine.cache.lengths = before
    return chosen, gaps


def _accept(writer: Writer, drafts: list[int], chosen: list[int], gaps: list[float]) -> int:
    """Take the accepted drafts and the token after them; return how many tokens to commit."""
    if not writer.open:
        return 0
    agreed = 0
    while agreed < len(drafts) and drafts[agreed] == chosen[agreed]:
        agreed += 1
    taken = writer.add(chosen[: agreed + 1], gaps[: agreed + 1])
    counters = writer.counters
    counters.verify_passes += 1
    counters.drafted += len(drafts)
    counters.accepted += min(agreed, taken)
    for place in range(min(agreed + 1, len(drafts), max(taken, 1))):
        counters.tried[place] += 1
        counters.kept[place] += place < agreed
    return taken


def _pending(writer: Writer) -> int:
    return writer.tokens[-1] if writer.tokens else 0


def _check(
    model: LoopedLM,
    prompts: Sequence[Sequence[int]],
    prefill: str,
    mode: Decode,
    loops: int,
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
    extra = 0
    if isinstance(mode, Speculative):
        extra = mode.draft_tokens
        if mode.draft_loops >= loops:
            raise PolicyError(
                f"draft_loops: found {mode.draft_loops}, expected fewer than the {loops} loops"
            )
    model.check_length(max(map(len, prompts)) + max_tokens + extra)
