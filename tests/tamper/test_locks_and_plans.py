"""T01–T08: a lock and what it froze, through the command line."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
from pathlib import Path

import pytest

from tests.cli.study import CONFIRM, SELECT, harness, ok, write_plans
from tests.tamper import hands


def test_t01_one_byte_of_a_locked_config(study: Path) -> None:
    hands.swap_text(hands.conf_of(study), "1.4, null", "1.3, null")
    before = sorted(study.rglob("*"))
    result = harness(study, "verify")
    assert result.code == 3
    assert "conf/toy_confirm.yaml" in result.err
    assert harness(study, "run", "conf=toy_confirm").code == 3
    assert sorted(study.rglob("*")) == before


def lower_the_bar(study: Path) -> None:
    """Edit the config, and the lock so that it agrees with it in itself."""
    from harness.store.digests import digest, file_table

    path = hands.conf_of(study)
    hands.swap_text(path, "1.4, null", "1.3, null")

    def change(lock: hands.Json) -> None:
        lock["plan_json"]["predictions"][0]["region"] = [1.3, None]
        lock["plan_digest"] = digest(lock["plan_json"])
        lock["files"]["conf"] = {
            f"conf/{name}": entry for name, entry in file_table(path.parent, [path]).items()
        }

    hands.edit(hands.lock_of(study), change)


def test_t02_config_and_hash_rewritten_together(study: Path) -> None:
    lower_the_bar(study)
    result = harness(study, "verify")
    assert result.code == 3
    assert "preregistrations/toy_confirm/lock.json" in result.err
    assert "by ledger record" in result.err


def test_t03_everything_rewritten_is_found_by_a_head_kept_outside(
    study: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "head.json"
    ok(study, "ledger", "anchor", "toy", "--save", str(saved))
    assert harness(study, "verify", "--anchor", str(saved)).code == 0
    # A date: no other file follows from it but the digests, which are all written anew.
    hands.edit(hands.record(study, 1), lambda one: one.update(at="2020-01-01T00:00:00.000000Z"))
    hands.rewrite_all(study)
    for run in ("toy_select", "toy_confirm"):
        folder = hands.run_of(study, run)
        (folder / "analysis.json").unlink()
    hands.rewrite_all(study)
    _rejudge(study)
    first = harness(study, "verify")
    assert first.code == 0, first.err
    assert "unanchored" in first.out
    second = harness(study, "verify", "--anchor", str(saved))
    assert second.code == 3
    assert "record 10" in second.err
    third = harness(study, "report", "toy_confirm", "--require-anchor")
    assert third.code == 7
    assert "unanchored" in third.err


def test_t03_a_lower_bar_needs_other_data_too(study: Path) -> None:
    lower_the_bar(study)
    hands.rewrite_all(study)
    result = harness(study, "verify")
    assert result.code == 3
    assert "order_digest" in result.err


def _rejudge(study: Path) -> None:
    """Let the ledger's verdicts be those of the rewritten records."""
    from harness.cli.analyze import again
    from harness.store.digests import digest
    from harness.store.paths import Project, RunPaths

    for plan in ("toy_select", "toy_confirm"):
        found = again(RunPaths(hands.run_of(study, plan)), Project(study))
        number = hands.number_of(study, "verdicts", plan)
        value = hands.load(hands.record(study, number))
        value["body"]["analysis_digest"] = digest(found)
        hands.store(hands.record(study, number), value)
        hands.rewrite_all(study)


def test_t04_freezing_again_is_refused_and_points_to_amend(study: Path) -> None:
    before = hands.lock_of(study).read_bytes()
    hands.swap_text(hands.conf_of(study), "1.4, null", "1.3, null")
    result = harness(study, "freeze", "conf=toy_confirm")
    assert result.code == 5
    assert "harness amend" in result.err
    assert hands.lock_of(study).read_bytes() == before
    with pytest.raises(SystemExit) as refused:
        harness(study, "freeze", "conf=toy_confirm", "--force")
    assert refused.value.code == 2


def test_t05_an_amendment_after_results_were_opened_deviates(study: Path) -> None:
    hands.swap_text(hands.conf_of(study), "3.0, null", "1.3, null")
    amended = harness(study, "amend", "conf=toy_confirm", "--reason", "three was a typing error")
    assert amended.code == 6
    assert "results were opened" in amended.out
    result = harness(study, "report", "toy_confirm")
    assert result.code == 6
    page = (hands.run_of(study) / "report" / "report.md").read_text()
    for part in ("DEVIATED P2", "3, ∞", "1.3, ∞", "three was a typing error", "code 6"):
        assert part in page, part
    assert "DEVIATED P1" not in page
    frozen = hands.load(hands.lock_of(study))["frozen_utc"]
    written = hands.load(study / "preregistrations/toy_confirm/amendments/0001.json")
    assert frozen in page
    assert written["access"] == "results_opened"
    verified = harness(study, "verify")
    assert verified.code == 6
    assert "by the amended rule: held" in page
    assert "DEVIATED P2" in verified.err
    words = {one["id"]: one["word"] for one in _verdicts(study)}
    assert words["P2"] == "failed"


def _verdicts(study: Path) -> list[hands.Json]:
    found: list[hands.Json] = hands.load(hands.record(study, hands.number_of(study, "verdicts")))[
        "body"
    ]["verdicts"]
    return found


@pytest.mark.parametrize(("keep", "codes"), [("half", (3, 3)), ("zero", (4, 4)), ("none", (4, 4))])
def test_t06_a_damaged_or_missing_lock_is_never_written_anew(
    study: Path, keep: str, codes: tuple[int, int]
) -> None:
    path = hands.lock_of(study)
    data = path.read_bytes()
    if keep == "none":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if keep == "half" else b"")
    left = path.read_bytes() if path.exists() else None
    found = harness(study, "verify").code, harness(study, "run", "conf=toy_confirm").code
    # Bytes that the ledger knows otherwise are a change, whatever else they are.
    assert found[0] in (3, codes[0])
    assert found[1] == codes[1]
    assert harness(study, "freeze", "conf=toy_confirm").code == 5
    assert (path.read_bytes() if path.exists() else None) == left


def _freezer(folder: str, bar: str, barrier: object, results: object) -> None:
    root = Path(folder)
    barrier.wait()  # type: ignore[attr-defined]
    results.put((harness(root, "freeze", "conf=toy_select").code, bar))  # type: ignore[attr-defined]


def race(folder: Path) -> list[int]:
    """Eight processes freeze one name, each with a conf folder of its own and another bar."""
    shared = folder / "shared"
    for name in ("preregistrations", "ledgers"):
        (shared / name).mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(8), context.Queue()
    workers = []
    for number in range(8):
        mine = folder / f"p{number}"
        write_plans(mine)
        text = SELECT.replace("[1.0, null]", f"[1.0{number + 1}, null]")
        hands.conf_of(mine, "toy_select").write_text(text)
        for name in ("preregistrations", "ledgers"):
            (mine / name).symlink_to(shared / name)
        args = (str(mine), str(number), barrier, results)
        workers.append(context.Process(target=_freezer, args=args))
        workers[-1].start()
    codes = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    winner = next(bar for code, bar in codes if code == 0)
    ok(folder / f"p{winner}", "verify")
    return sorted(code for code, _ in codes)


def test_t07_of_eight_freezes_one_wins(tmp_path: Path) -> None:
    assert race(tmp_path) == [0, *[5] * 7]


@pytest.mark.slow
def test_t07_twenty_rounds(tmp_path: Path) -> None:
    for number in range(20):
        assert race(tmp_path / str(number)) == [0, *[5] * 7], number


def test_t08_a_lock_that_does_not_fit_on_the_disk_leaves_nothing(study: Path) -> None:
    text = CONFIRM.replace("question: toy_speedup", "question: toy_speedup_again")
    hands.conf_of(study, "toy_later").write_text(text)
    earlier = hands.lock_of(study).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        first = harness(study, "freeze", "conf=toy_later")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert first.code == 10
    assert "cannot be written" in first.err
    assert not hands.lock_of(study, "toy_later").exists()
    assert hands.lock_of(study).read_bytes() == earlier
    ok(study, "freeze", "conf=toy_later")
    shutil.rmtree(study / "runs" / "none", ignore_errors=True)
