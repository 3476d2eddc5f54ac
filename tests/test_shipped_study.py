"""The study that ships: its locks re-derive, and what they cover has not moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.ledger.chain import Chain
from harness.ledger.records import history
from harness.plan.digest import plan_digest
from harness.plan.order import order_table
from harness.prereg.lock import Lock, read_lock
from harness.prereg.tables import differences
from harness.store.canonical import canonical
from harness.store.digests import sha256_bytes
from harness.store.paths import Project
from tests.cli.study import ok

ROOT = Path(__file__).parents[1]
PROJECT = Project(ROOT)
PLANS = sorted(path.parent.name for path in (ROOT / "preregistrations").glob("*/lock.json"))


@pytest.fixture(params=PLANS)
def lock(request: pytest.FixtureRequest) -> Lock:
    return read_lock(PROJECT, request.param)


def test_the_study_has_a_selection_and_a_confirmation() -> None:
    assert {"select_raven", "confirm_raven"} <= set(PLANS)


@pytest.mark.parametrize("part", ["conf", "model", "patch"])
def test_frozen_files_have_not_moved(lock: Lock, part: str) -> None:
    moved = [str(error) for _, error in differences(PROJECT, lock.files.table(part))]
    assert not moved, (
        f"files that must not move (conf files of frozen plans, shipped models) moved: {moved}; "
        f"{lock.plan} is frozen, so restore them and write a new plan instead"
    )


def test_every_lock_re_derives_under_its_own_schema(lock: Lock) -> None:
    plan = lock.typed_plan()
    assert sha256_bytes(canonical(lock.plan_json)) == lock.plan_digest == plan_digest(plan)
    assert order_table(plan, lock.plan_digest, lock.nonce).digest == lock.order_digest


def test_every_registered_run_is_shipped_sealed_and_judged(lock: Lock) -> None:
    seen = history(Chain(PROJECT.ledger(lock.study)))
    start = seen.registered(lock.plan)
    assert start is not None
    run = PROJECT.run(lock.plan, start[1].run_id)
    assert run.seal.is_file()
    assert seen.verdicts(lock.plan, start[1].run_id)


def test_the_shipped_study_verifies_and_its_verdicts_recompute() -> None:
    assert "verified" in ok(ROOT, "verify").out
    for plan in PLANS:
        ok(ROOT, "analyze", plan)
