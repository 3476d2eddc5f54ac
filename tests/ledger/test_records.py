"""Typed records, and what a history says about plans, runs, verdicts and attempts."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from harness.ledger.chain import Chain
from harness.ledger.records import (
    Counts,
    History,
    PlanFrozen,
    ResultOpened,
    RunAbandoned,
    RunSealed,
    RunStarted,
    VerdictEntry,
    Verdicts,
    append,
    body_json,
    history,
    start_registered,
)
from harness.store.errors import ChangedError, RefusedError

ONE, TWO = "1" * 64, "2" * 64


def frozen(plan: str, question: str = "faster", attempt: int = 1, lock: str = ONE) -> PlanFrozen:
    return PlanFrozen(
        plan=plan, question=question, attempt=attempt, lock_digest=lock, plan_digest=TWO
    )


def started(plan: str, run_id: str, lock: str = ONE) -> RunStarted:
    return RunStarted(plan=plan, run_id=run_id, role="registered", lock_digest=lock)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "raven")


def test_every_lock_on_a_question_is_counted(chain: Chain) -> None:
    for attempt, plan in enumerate(("one", "two", "three"), start=1):
        append(chain, frozen(plan, attempt=attempt))
    append(chain, frozen("other", question="smaller"))
    seen = history(chain)
    assert seen.attempt("two") == (2, 3)
    assert seen.attempt("other") == (1, 1)
    assert seen.attempt("never") is None
    assert [body.plan for body in seen.locks_of("faster")] == ["one", "two", "three"]


def test_the_first_start_after_the_freeze_is_registered_for_ever(chain: Chain) -> None:
    append(chain, frozen("one"))
    start_registered(chain, started("one", "0001-a"))
    append(chain, RunAbandoned(plan="one", run_id="0001-a", reason="a pity"))
    with pytest.raises(RefusedError, match="spent; 0001-a is its registered run"):
        start_registered(chain, started("one", "0002-b"))
    found = history(chain).registered("one")
    assert found is not None
    assert found[1].run_id == "0001-a"
    assert history(chain).abandoned("one", "0001-a") is not None


def test_a_run_cannot_start_without_its_lock(chain: Chain) -> None:
    with pytest.raises(RefusedError, match="not frozen"):
        start_registered(chain, started("one", "0001-a"))
    append(chain, frozen("one"))
    with pytest.raises(RefusedError, match="another lock"):
        start_registered(chain, started("one", "0001-a", lock=TWO))


def _try(folder: Path, number: int, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    try:
        start_registered(Chain(folder), started("one", f"000{number}-x"))
        results.put(number)  # type: ignore[attr-defined]
    except RefusedError:
        results.put(None)  # type: ignore[attr-defined]


def test_of_several_first_runs_one_is_registered(chain: Chain) -> None:
    append(chain, frozen("one"))
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    racers = [
        context.Process(target=_try, args=(chain.folder, n, barrier, results)) for n in range(4)
    ]
    for racer in racers:
        racer.start()
    found = [results.get(timeout=30) for _ in racers]
    for racer in racers:
        racer.join()
    assert sum(one is not None for one in found) == 1
    assert len(list(history(chain).of(RunStarted))) == 1


def test_a_history_remembers_verdicts_and_who_looked(chain: Chain) -> None:
    append(chain, frozen("one"))
    assert history(chain).access("one") == "nothing_run"
    start_registered(chain, started("one", "0001-a"))
    assert history(chain).access("one") == "run_started"
    counts = Counts(trials=8, visits=4)
    append(chain, RunSealed(plan="one", run_id="0001-a", seal_digest=TWO, records=counts))
    assert history(chain).access("one") == "run_sealed"
    entry = VerdictEntry(id="P1", word="failed", estimate=1.0, low=None, high=2.5)
    body = Verdicts(
        plan="one", run_id="0001-a", seal_digest=TWO, verdicts=[entry], analysis_digest=ONE
    )
    append(chain, body)
    append(chain, ResultOpened(plan="one", run_id="0001-a"))
    seen = history(chain)
    assert seen.access("one") == "results_opened"
    assert [v.verdicts[0].word for _, v in seen.verdicts("one", "0001-a")] == ["failed"]
    assert seen.verdicts("one")[0][1] == body
    assert seen.opened("one", "0001-a") is not None
    assert seen.opened("two") is None


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("plan.frozen", {"attempt": True}, "attempt"),
        ("plan.frozen", {"attempt": 1.5}, "attempt"),
        ("plan.frozen", {"extra": 1}, "extra"),
        ("plan.frozen", {"lock_digest": "A" * 64}, "lock_digest"),
        ("plan.melted", {}, "not known"),
    ],
)
def test_a_body_of_another_form_is_named(
    chain: Chain, kind: str, change: dict[str, object], message: str
) -> None:
    chain.append(kind, body_json(frozen("one")) | change)
    with pytest.raises(ChangedError, match=f"record 1.*{message}"):
        history(chain)


def test_a_condition_on_the_history_is_checked_with_the_append(chain: Chain) -> None:
    append(chain, frozen("one"))

    def guard(seen: History) -> None:
        assert seen.knows("one")
        raise RefusedError("known")

    with pytest.raises(RefusedError, match="known"):
        append(chain, frozen("one"), guard=guard)
    assert chain.head.count == 1
