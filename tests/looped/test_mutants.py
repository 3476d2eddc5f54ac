"""The exactness checks are held against broken caches: each mistake must be caught by one of them.

    pytest -m slow tests/looped/test_mutants.py -s

prints which check caught which mistake.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from harness.looped import cache as cache_module
from harness.looped.addresses import Addresses, Frame
from harness.looped.block import Attend, scaled_attention
from harness.looped.cache import PlaneCache
from harness.looped.engine import Engine
from harness.looped.model import CODA, Memory
from harness.looped.passes import PlanePass
from harness.looped.planes import NearAndFar
from harness.looped.policies import Policy
from harness.looped.writer import Writer
from tests.looped.exactness import CHECKS

Patch = pytest.MonkeyPatch


def boundary_one_too_wide(patch: Patch) -> None:
    patch.setattr(Addresses, "_near", lambda s, q, k: q - k <= s._policy.widest_window + 1)


def boundary_one_too_narrow(patch: Patch) -> None:
    patch.setattr(Addresses, "_near", lambda s, q, k: q - k <= max(0, s._policy.widest_window - 1))


def boundary_of_the_whole_block(patch: Patch) -> None:
    """One window for a pass, from its first token, instead of one for each query."""
    near = Addresses.near

    def shared(self: Addresses, frame: Frame) -> NearAndFar:
        first = frame.positions[:, :1].unsqueeze(-1)
        width = self._policy.widest_window

        def rule(query: Tensor, key: Tensor) -> Tensor:
            return first.expand_as(query) - key <= width

        patch.setattr(self, "_near", rule)
        return near(self, frame)

    patch.setattr(Addresses, "near", shared)


def ring_of_w(patch: Patch) -> None:
    patch.setattr(cache_module, "ring_columns", lambda p, beyond: max(1, p.widest_window))


def ring_of_w_plus_1(patch: Patch) -> None:
    patch.setattr(cache_module, "ring_columns", lambda p, beyond: p.widest_window + 1)


def shared_batch_length(patch: Patch) -> None:
    """All rows move by what the slowest row accepted."""
    commit = PlaneCache.commit
    patch.setattr(PlaneCache, "commit", lambda s, counts: commit(s, [min(counts)] * len(counts)))


def shared_batch_length_of_the_fastest(patch: Patch) -> None:
    commit = PlaneCache.commit
    patch.setattr(PlaneCache, "commit", lambda s, counts: commit(s, [max(counts)] * len(counts)))


def coda_kept_from_drafts(patch: Patch) -> None:
    """Verification leaves the coda keys and values of drafted places as the drafts wrote them."""
    attend, open_draft, commit = PlanePass.attend, PlaneCache.open_draft, PlaneCache.commit

    def drafted(self: PlaneCache, loops: int, *, deepest: bool, ahead: int) -> object:
        self.drafted = ahead + 1  # type: ignore[attr-defined]
        return open_draft(self, loops, deepest=deepest, ahead=ahead)

    def committed(self: PlaneCache, counts: list[int]) -> None:
        self.drafted = 0  # type: ignore[attr-defined]
        commit(self, counts)

    def kept(self: PlanePass, kind: str, layer: int, loop: int) -> Attend:
        usual = attend(self, kind, layer, loop)
        count = getattr(self.cache, "drafted", 0)
        if kind != CODA or type(self) is not PlanePass or not count:
            return usual
        store, spot = self.cache.outer[CODA][layer], self.outer.spot
        old = store.both.clone()

        def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k, v = k.clone(), v.clone()
            places = spot.columns.expand(len(k), -1)[:, :count]
            k[:, :count] = old[0][spot.rows, places]
            v[:, :count] = old[1][spot.rows, places]
            spot.write(store, k, v)
            end = self.outer.columns
            return scaled_attention(q, store.keys[:, :end], store.values[:, :end], self.outer.mask)

        return call

    patch.setattr(PlaneCache, "open_draft", drafted)
    patch.setattr(PlaneCache, "commit", committed)
    patch.setattr(PlanePass, "attend", kept)


def retired_at_draft_time(patch: Patch) -> None:
    """A draft at position p drops the planes of p - W at once, as if it were committed."""
    open_draft = PlaneCache.open_draft

    def retiring(
        self: PlaneCache, loops: int, *, deepest: bool, ahead: int
    ) -> tuple[Tensor, Memory]:
        window = self.policy.widest_window
        for ring in self.rings.values():
            for row, length in enumerate(self.lengths):
                gone = length + ahead - window
                if 0 <= gone < length:
                    for store in ring:
                        store.both[:, row, gone % store.keys.shape[1]] = 0
        return open_draft(self, loops, deepest=deepest, ahead=ahead)

    patch.setattr(PlaneCache, "open_draft", retiring)


def rejected_drafts_committed(patch: Patch) -> None:
    accept = Writer.accept

    def all_of_them(self: Writer, drafts: list[int], chosen: list[int], gaps: list[float]) -> int:
        taken = accept(self, drafts, chosen, gaps)
        return len(drafts) + 1 if self.open and taken else taken

    patch.setattr(Writer, "accept", all_of_them)


def one_token_too_few_committed(patch: Patch) -> None:
    """The pending token's own keys are forgotten when all drafts are accepted."""
    accept = Writer.accept
    patch.setattr(Writer, "accept", lambda s, d, c, g: max(0, accept(s, d, c, g) - 1))


def first_rejected_draft_accepted(patch: Patch) -> None:
    accept = Writer.accept

    def generous(self: Writer, drafts: list[int], chosen: list[int], gaps: list[float]) -> int:
        wrong = next((i for i, d in enumerate(drafts) if d != chosen[i]), None)
        if wrong is not None:
            chosen = [*chosen[:wrong], drafts[wrong], *chosen[wrong + 1 :]]
        return accept(self, drafts, chosen, gaps)

    patch.setattr(Writer, "accept", generous)


def pass_of_w_plus_2(patch: Patch) -> None:
    longest = Policy.longest_pass.fget  # type: ignore[attr-defined]

    def longer(self: Policy) -> int | None:
        allowed = longest(self)
        return None if allowed is None else allowed + 1

    patch.setattr(Policy, "longest_pass", property(longer))


def no_catch_up(patch: Patch) -> None:
    """The last draft goes on from the state of the one before it."""
    patch.setattr(Engine, "_catch_up", lambda s, tokens, loops: s._kept.append(s._kept[-1]))


def resumed_one_loop_late(patch: Patch) -> None:
    resume = Engine.resume

    def late(self: Engine, ids: list[list[int]], guesses: object, loops: int) -> object:
        kept = self.model.loop
        patch.setattr(
            self.model,
            "loop",
            lambda x, e, number, table, memory: (
                x if number == loops + 1 and x.shape[1] > 1 else kept(x, e, number, table, memory)
            ),
        )
        try:
            return resume(self, ids, guesses, loops)  # type: ignore[arg-type]
        finally:
            patch.setattr(self.model, "loop", kept)

    patch.setattr(Engine, "resume", late)


def start_state_by_place_in_the_call(patch: Patch) -> None:
    """A token's state depends on where it stands in its pass, not in its text."""
    patch.setattr(Engine, "_state", lambda s, p: s._states[: p.shape[1]].unsqueeze(0))


def prompt_ring_shifted_by_one(patch: Patch) -> None:
    """A full_prompt pass keeps the planes of the positions before the right ones."""
    tail = Addresses.tail

    def shifted(self: Addresses, counts: list[int]) -> object:
        spot, source = tail(self, counts)
        return spot, (source - 1).clamp(min=0)

    patch.setattr(Addresses, "tail", shifted)


MUTANTS: tuple[Callable[[Patch], None], ...] = (
    boundary_one_too_wide,
    boundary_one_too_narrow,
    boundary_of_the_whole_block,
    ring_of_w,
    ring_of_w_plus_1,
    shared_batch_length,
    shared_batch_length_of_the_fastest,
    coda_kept_from_drafts,
    retired_at_draft_time,
    rejected_drafts_committed,
    one_token_too_few_committed,
    first_rejected_draft_accepted,
    pass_of_w_plus_2,
    no_catch_up,
    resumed_one_loop_late,
    start_state_by_place_in_the_call,
    prompt_ring_shifted_by_one,
)


def caught_by() -> list[str]:
    """The checks that fail, or that can't even end."""
    found = []
    for check in CHECKS:
        try:
            check()
        except AssertionError:
            found.append(check.__name__)
        except IndexError:
            found.append(f"{check.__name__} (runs out of the cache)")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_the_mistake_is_caught(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    found = caught_by()
    print(f"\n{mutant.__name__}: {', '.join(found) or 'nobody'}")
    assert found


@pytest.mark.slow
def test_without_a_mistake_nothing_is_caught() -> None:
    assert caught_by() == []
