"""The index arithmetic of the patch: whatever the passes, every read meets the policy's plane.

Rows carry tags instead of keys: the request, the position and the loop that wrote them. A read is
right when it meets its own request, the asked position, and the plane that the policy names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from harness.backends.sglang.ripe.options import Options
from harness.backends.sglang.ripe.passes import READS, WRITES, Passes, SlotTables
from harness.backends.sglang.ripe.tables import Rings, flat_decode_rows, rewrite_flat, ring_writes
from harness.looped.policies import ripe

POOL, SLOTS, CONTEXT = 400, 5, 64


class Counting:
    """Stands in for the reporter."""

    def __init__(self) -> None:
        self.counts = {READS: 0, WRITES: 0}

    def count(self, name: str, amount: int = 1) -> None:
        self.counts[name] += amount


@dataclass
class Request:
    name: int
    slot: int
    prompt: int
    total: int
    done: int = 0


@dataclass
class Machine:
    """A pool of one core layer, its request slots, and requests that come and go."""

    options: Options
    rng: random.Random
    free_rows: list[int] = field(default_factory=lambda: list(range(1, POOL)))
    free_slots: list[int] = field(default_factory=lambda: list(range(1, SLOTS)))

    def __post_init__(self) -> None:
        self.rng.shuffle(self.free_rows)
        window, loops = self.options.window, self.options.loops
        self.rings = Rings(POOL, window, loops, SLOTS)
        self.table = torch.zeros(SLOTS, CONTEXT, dtype=torch.int32)
        self.tags = torch.full((POOL + self.rings.rows, 1, 3), -1)
        self.reporter = Counting()
        self.passes = Passes(self.options, self.rings, self.table, self.reporter)  # type: ignore[arg-type]
        self.tables = SlotTables(self.rings, self.table)
        self.names = 0

    def admit(self) -> Request:
        self.names += 1
        slot = self.free_slots.pop(self.rng.randrange(len(self.free_slots)))
        prompt = self.rng.randint(1, 20)
        return Request(self.names, slot, prompt, prompt + self.rng.randint(1, 20))

    def release(self, request: Request) -> None:
        self.free_slots.append(request.slot)
        self.free_rows += self.table[request.slot, : request.done].tolist()

    def run(self, batch: list[Request], counts: list[int]) -> None:
        """One pass of counts[i] tokens of request i through every loop."""
        starts = torch.tensor([request.done for request in batch])
        slots = torch.tensor([request.slot for request in batch])
        ends = starts + torch.tensor(counts)
        for request, count in zip(batch, counts, strict=True):
            for position in range(request.done, request.done + count):
                self.table[request.slot, position] = self.free_rows.pop()
        decode = all(count == 1 for count in counts) and self.rng.random() < 0.7
        if decode:
            self.passes.prepare_decode(slots, ends)
            if self.options.window:
                self.tables.fill(slots, ends - 1)
        else:
            self.passes.prepare_extend(slots, starts, torch.tensor(counts))
        tokens = [(r, p) for r, n in zip(batch, counts, strict=True) for p in _span(r, n)]
        rows = torch.tensor([int(self.table[r.slot, p]) for r, p in tokens])
        for loop in range(1, self.options.loops + 1):
            own = torch.tensor([[[r.name, p, loop]] for r, p in tokens])
            self.tags[rows] = own
            self._check(batch, counts, loop, decode)
            if loop < self.options.loops:
                self.passes.retire(loop, self.tags, self.tags, own, own)
        for request, count in zip(batch, counts, strict=True):
            request.done += count

    def _check(self, batch: list[Request], counts: list[int], loop: int, decode: bool) -> None:
        for place, (request, count) in enumerate(zip(batch, counts, strict=True)):
            for query, read in self._reads(request, count, place, loop, decode):
                positions = sorted(read[:, 1].tolist())
                assert positions == list(range(query + 1))
                assert set(read[:, 0].tolist()) == {request.name}
                for _, position, plane in read.tolist():
                    assert plane == self._expected(request, count, query, position, loop)

    def _reads(
        self, request: Request, count: int, place: int, loop: int, decode: bool
    ) -> Iterator[tuple[int, Tensor]]:
        """Each query of a request with the tags [keys, 3] that it reads."""
        start = request.done
        plain = self.table[request.slot, : start + count].long()
        ringless = loop == self.options.loops or not self.rings.window
        if ringless or not self.passes.goes_on:
            for query in range(start, start + count):
                yield query, self.tags[plain[: query + 1], 0]
        elif decode:
            yield start, self.tags[self.tables.of(loop)[place, : start + 1].long(), 0]
        else:
            rows, mask = self.passes.plan(loop)[place]
            for number, query in enumerate(range(start, start + count)):
                yield query, self.tags[rows[mask[number]], 0]

    def _expected(self, request: Request, count: int, query: int, position: int, loop: int) -> int:
        whole = self.options.prefill == "full_prompt"
        prompt = request.prompt if whole else 0
        return ripe(self.options.window).plane(
            query=query, loop=loop, key=position, loops=self.options.loops, prompt=prompt
        )


def _span(request: Request, count: int) -> range:
    return range(request.done, request.done + count)


@pytest.mark.parametrize("window", [0, 1, 3, 8, 40])
@pytest.mark.parametrize("prefill", ["exact", "full_prompt"])
def test_every_read_meets_the_policys_plane(window: int, prefill: str) -> None:
    for seed in range(6):
        options = Options(window, 3, SLOTS - 1, prefill)
        machine = Machine(options, random.Random(seed))
        _serve(machine, requests=9)
        assert machine.names == 9
        assert (machine.reporter.counts[WRITES] > 0) == (window > 0)


def _serve(machine: Machine, requests: int) -> None:
    """Random passes: prompts alone or together, decode steps, slots that are used again."""
    rng, window = machine.rng, machine.options.window
    whole = machine.options.prefill == "full_prompt"
    active: list[Request] = []
    while active or machine.names < requests:
        while machine.free_slots and machine.names < requests and rng.random() < 0.5:
            active.append(machine.admit())
        if not active:
            continue
        batch = rng.sample(active, rng.randint(1, len(active)))
        counts = []
        for request in batch:
            if whole and request.done == 0:
                counts.append(request.prompt)
            else:
                limit = request.total - request.done
                counts.append(min(limit, rng.choice([1, 1, rng.randint(1, window + 1)])))
        machine.run(batch, counts)
        for request in [r for r in active if r.done == r.total]:
            machine.release(request)
            active.remove(request)


def test_the_flat_layout_reads_what_the_table_reads() -> None:
    options = Options(4, 5, SLOTS - 1, "full_prompt")
    machine = Machine(options, random.Random(1))
    batch = [machine.admit() for _ in range(4)]
    batch[1].prompt = 2
    machine.run(batch, [request.prompt for request in batch])
    slots = torch.tensor([request.slot for request in batch])
    lengths = torch.tensor([request.done + 1 for request in batch])
    machine.tables.fill(slots, lengths - 1)
    _, plain = flat_decode_rows(Rings(POOL, 0, 5, SLOTS), 1, slots, lengths, machine.table)
    for loop in range(1, 5):
        indptr, indices = flat_decode_rows(machine.rings, loop, slots, lengths, machine.table)
        again = rewrite_flat(machine.rings, loop, slots, lengths, indptr.int(), plain)
        assert indices.equal(again)
        assert indptr.tolist() == [0, *lengths.cumsum(0).tolist()]
        for place, length in enumerate(lengths.tolist()):
            begin = int(indptr[place])
            expected = machine.tables.of(loop)[place, :length].tolist()
            assert indices[begin : begin + length].tolist() == expected


def test_ring_rows_of_loops_slots_and_positions_are_apart() -> None:
    rings = Rings(100, 4, 3, 5)
    seen = [
        int(rings.row(loop, torch.tensor(slot), torch.tensor(position)))
        for loop in (1, 2)
        for slot in range(5)
        for position in range(7, 11)
    ]
    assert sorted(seen) == list(range(100, 100 + rings.rows))


def test_only_the_last_positions_of_a_pass_enter_the_ring() -> None:
    token, slot, position = ring_writes(
        torch.tensor([2, 1]), torch.tensor([0, 10]), torch.tensor([5, 2]), 3
    )
    assert token.tolist() == [2, 3, 4, 5, 6]
    assert slot.tolist() == [2, 2, 2, 1, 1]
    assert position.tolist() == [2, 3, 4, 10, 11]


def test_a_pass_that_does_not_go_on_where_the_ring_ends_is_stopped() -> None:
    machine = Machine(Options(4, 3, SLOTS - 1, "exact"), random.Random(0))
    slots = torch.tensor([2])
    machine.passes.prepare_extend(slots, torch.tensor([0]), torch.tensor([3]))
    machine.passes.prepare_decode(slots, torch.tensor([4]))
    with pytest.raises(RuntimeError, match="does not go on where its request's ring ends"):
        machine.passes.prepare_decode(slots, torch.tensor([6]))


@pytest.mark.parametrize(("prefill", "start"), [("exact", 0), ("exact", 5), ("full_prompt", 5)])
def test_a_pass_longer_than_the_policy_allows_is_stopped(prefill: str, start: int) -> None:
    machine = Machine(Options(4, 3, SLOTS - 1, prefill), random.Random(0))
    slots = torch.tensor([2])
    if start:
        machine.passes.prepare_extend(slots, torch.tensor([0]), torch.tensor([start]))
    with pytest.raises(RuntimeError, match=rf"pass of 6 tokens from position {start}.*at most 5"):
        machine.passes.prepare_extend(slots, torch.tensor([start]), torch.tensor([6]))
