"""An author who kills the blocks that he is losing gains nothing, however carefully he does it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.run.supervisor import execute
from harness.store.canonical import Json
from harness.store.errors import StoppedError
from tests.run.analysed import SPEED, analysis, predicting, verdict
from tests.run.bench import new_run, plan_of, two_arms
from tests.run.inline import InlineWorker

NOISE: dict[str, Any] = {"jitter": 0.05}
SCHEDULE = {"aa_blocks": 0, "launches_per_arm": 1, "blocks": 40, "spare_blocks": 2,
            "block_items": 1}  # fmt: skip
PLAN = predicting(
    plan_of(two_arms(NOISE, speedup=1.0, **NOISE), SCHEDULE, {"interrupted_share": 0.05}), SPEED
)
Wish = Callable[[float, int], bool]
"""(log ratio so far, kills so far) → whether to kill the block."""


class Author:
    """Watches every time that comes back; equal arms, so that each `held` is a false claim."""

    def __init__(self, folder: Path, seed: int, wish: Wish) -> None:
        self.wish, self.kills = wish, 0
        self.times: dict[int, list[tuple[str, float]]] = {}
        self.context = new_run(
            folder, PLAN, start_worker=self.worker, seed=str(seed), progress=self.look
        )

    def worker(self, arm: str, log: Path, under: Any = ()) -> Any:
        author = self

        class Watched(InlineWorker):
            def request(self, message: Json, timeout_s: float, tick: Any = None) -> Json:
                reply = super().request(message, timeout_s, tick)
                if message["op"] == "generate" and "item" in message["items"][0]["id"]:
                    time = math.log(reply["timing"]["decode_ns"])
                    author.times.setdefault(message["id"] // 4, []).append((arm, time))
                return reply

        return Watched()

    def look(self, _: object) -> None:
        """Called between visits: three of four are in, and the author decides."""
        block = max(self.times, default=-1)
        seen = self.times.get(block, [])
        if len(seen) != 3:
            return
        mean = {
            arm: sum(t for name, t in seen if name == arm) / sum(name == arm for name, _ in seen)
            for arm in ("pristine", "patched")
        }
        if self.wish(mean["pristine"] - mean["patched"], self.kills):
            self.kills += 1
            seen.append(("", 0.0))
            raise StoppedError("killed")

    def claim(self) -> str:
        """Run to the end, whatever it takes, and return the verdict on the false speed-up."""
        while True:
            try:
                execute(self.context)
            except StoppedError:
                self.context = replace(self.context)
            else:
                return str(verdict(analysis(self.context), "P1")["word"])


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is simulated is the author, not the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def false_claims(folder: Path, runs: int, wish: Wish) -> int:
    return sum(Author(folder / str(n), n, wish).claim() == "held" for n in range(runs))


def honest(ratio: float, kills: int) -> bool:
    return False


def every_losing_block(ratio: float, kills: int) -> bool:
    return ratio < 0


def the_worst_that_the_limit_allows(ratio: float, kills: int) -> bool:
    return kills < 2 and ratio < -0.08


def test_killing_every_losing_block_voids_the_claim(tmp_path: Path) -> None:
    author = Author(tmp_path, 1, every_losing_block)
    assert author.claim() == "void"
    assert author.kills > 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("wish", [honest, the_worst_that_the_limit_allows])
def test_no_author_claims_more_often_than_the_nominal_rate(tmp_path: Path, wish: Wish) -> None:
    """One-sided 5 %: of 200 runs, 17 or fewer with probability 98.8 %."""
    assert false_claims(tmp_path, 200, wish) <= 17


@pytest.mark.slow
def test_no_author_who_kills_every_losing_block_claims_anything(tmp_path: Path) -> None:
    assert false_claims(tmp_path, 20, every_losing_block) == 0
