"""Freezing: once, whole, by one winner, and only plans that can mean something."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.ledger.chain import Chain
from harness.ledger.records import PlanFrozen, append, history
from harness.plan.compose import Composed, compose
from harness.plan.order import order_table
from harness.prereg.findings import exit_code
from harness.prereg.freeze import freeze
from harness.prereg.interpolations import volatile
from harness.prereg.lock import lock_digest, read_lock
from harness.prereg.partitions import DrawnItem, check_drawn
from harness.prereg.verify import verify_lock, verify_project
from harness.store.canonical import canonical, parse
from harness.store.errors import (
    ChangedError,
    Exit,
    HarnessError,
    IncompleteError,
    RefusedError,
    StorageError,
    UsageError,
)
from harness.store.paths import Project
from tests.prereg import study as build

EASY = {"region": (1.1, None)}


def test_a_freeze_writes_a_lock_and_its_ledger_record(project: Project) -> None:
    report = build.freeze_plan(project, build.simple("confirm_a"))
    lock = read_lock(project, "confirm_a")
    assert report.lock == lock
    assert project.lock("confirm_a").read_bytes() == lock.data()
    frozen = history(Chain(project.ledger("raven"))).frozen("confirm_a")
    assert frozen is not None
    assert frozen[1].lock_digest == report.lock_digest == lock_digest(project, "confirm_a")
    assert frozen[1].plan_digest == lock.plan_digest == report.plan_digest
    assert report.head == Chain(project.ledger("raven")).head
    assert lock.ledger_head.head().count == 0
    assert verify_project(project) == []


def test_a_lock_has_exactly_the_fields_of_the_format(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    value = json.loads(project.lock("confirm_a").read_text(encoding="utf-8"))
    assert sorted(value) == [
        "attempt", "device_class", "environment", "files", "format", "frozen_utc", "git",
        "ledger_head", "nonce", "order_digest", "parents", "partitions", "plan", "plan_digest",
        "plan_json", "question", "schema", "selection", "stage", "study", "threads",
        "tool_version",
    ]  # fmt: skip
    assert sorted(value["files"]) == ["code", "conf", "model", "patch"]
    assert "models/tiny/weights.bin" in value["files"]["model"]
    assert list(value["files"]["conf"]) == ["conf/arm/ripe.yaml", "conf/confirm_a.yaml"]
    assert str(project.root) not in json.dumps(value)


def test_order_and_confirm_items_follow_from_the_nonce_explore_items_do_not(
    project: Project,
) -> None:
    one = build.simple("confirm_a")
    build.freeze_plan(project, one)
    other = Project(project.root.parent / "other")
    build.project_at(other.root)
    build.freeze_plan(other, one)
    here, there = read_lock(project, "confirm_a"), read_lock(other, "confirm_a")
    assert here.plan_digest == there.plan_digest
    assert here.nonce != there.nonce
    assert here.partitions["confirm"].ids != there.partitions["confirm"].ids
    assert here.partitions["explore"] == there.partitions["explore"]
    table = order_table(one, here.plan_digest, here.nonce)
    assert here.order_digest == table.digest
    assert here.partitions["confirm"].count == 10  # four blocks and a spare, two items each


def test_a_dry_run_writes_nothing_and_names_what_cannot_be_undone(project: Project) -> None:
    composed = build.composed(project, build.simple("confirm_a"))
    before = sorted(project.root.rglob("*"))
    report = freeze(project, composed, build.inputs(project), dry_run=True)
    assert sorted(project.root.rglob("*")) == before
    assert report.lock is None
    assert any("registered one, for ever" in sentence for sentence in report.irrevocable)


# T04 — never twice


def test_a_second_freeze_is_refused_and_the_lock_stays(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    before = project.lock("confirm_a").read_bytes()
    changed = build.simple("confirm_a", predictions=[build.prediction(region=(1.05, None))])
    for again in (build.simple("confirm_a"), changed):
        with pytest.raises(RefusedError, match=r"harness amend conf=confirm_a"):
            build.freeze_plan(project, again)
    assert project.lock("confirm_a").read_bytes() == before
    assert Chain(project.ledger("raven")).head.count == 1


def test_a_name_stays_known_under_another_study(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    shutil.rmtree(project.prereg("confirm_a"))
    with pytest.raises(RefusedError, match="ledger raven knows the plan"):
        build.freeze_plan(project, build.simple("confirm_a", study="crow"))


# T06 — a damaged or missing lock


@pytest.mark.parametrize("keep", ["half", "nothing", "gone"])
def test_a_damaged_lock_is_never_written_anew(study: Project, keep: str) -> None:
    path = study.lock(build.SELECT)
    data = path.read_bytes()
    if keep == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if keep == "half" else b"")
    found = [finding for finding in verify_lock(study, build.SELECT) if not finding.remark]
    codes = {"half": Exit.CHANGED, "nothing": Exit.INCOMPLETE, "gone": Exit.INCOMPLETE}
    assert exit_code(found) == codes[keep]
    assert exit_code(verify_project(study)) in (Exit.CHANGED, Exit.INCOMPLETE)
    left = path.read_bytes() if path.exists() else None
    with pytest.raises(RefusedError):
        build.freeze_plan(study, build.plan(build.SELECT))
    assert (path.read_bytes() if path.exists() else None) == left


# T07 — eight at once


def _freeze_one(root: Path, number: int, barrier: Any, results: Any) -> None:
    project = Project(root)
    region = (1.1 + number / 100, None)
    one = build.simple("confirm_a", predictions=[build.prediction(region=region)])
    path = project.conf / "confirm_a.yaml"
    composed = Composed(one, (path,))
    barrier.wait()
    try:
        freeze(project, composed, build.inputs(project))
        results.put(0)
    except HarnessError as error:
        results.put(int(error.exit_code))


def _rounds(folder: Path, rounds: int) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(rounds):
        project = build.project_at(folder / f"round{number}")
        (project.conf / "confirm_a.yaml").write_text("title: x\n")
        barrier, results = context.Barrier(8), context.Queue()
        racers = [
            context.Process(target=_freeze_one, args=(project.root, n, barrier, results))
            for n in range(8)
        ]
        for racer in racers:
            racer.start()
        codes = sorted(results.get(timeout=60) for _ in racers)
        for racer in racers:
            racer.join()
        assert codes == [0] + [5] * 7
        assert verify_project(project) == []


def test_of_eight_freezes_of_one_name_one_wins(tmp_path: Path) -> None:
    _rounds(tmp_path, 3)


@pytest.mark.slow
def test_of_eight_freezes_of_one_name_one_wins_twenty_times(tmp_path: Path) -> None:
    _rounds(tmp_path, 20)


# T08 — no room on the disk

_LIMITED = """
import resource, sys
from pathlib import Path
from tests.prereg import study as build
from harness.store.errors import StorageError
from harness.store.paths import Project
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    build.freeze_plan(Project(Path(sys.argv[1])), build.simple("confirm_a"))
except StorageError as error:
    print(error)
    sys.exit(int(error.exit_code))
"""


def _limited(project: Project, limit: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", _LIMITED, str(project.root), str(limit)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path.cwd())


def test_a_full_disk_leaves_no_half_lock_and_the_next_freeze_works(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_z", question="other"))
    earlier = project.lock("confirm_z").read_bytes()
    result = _limited(project, 700)
    assert result.returncode == Exit.STORAGE, result.stderr
    assert "lock.json" in result.stdout
    assert list(project.prereg("confirm_a").glob("*")) == []
    assert project.lock("confirm_z").read_bytes() == earlier
    assert _limited(project, 1 << 20).returncode == 0
    assert verify_project(project) == []


def _crash_before_ledger(project: Project, monkeypatch: pytest.MonkeyPatch, one: Any) -> None:
    def crash(*_: object, **__: object) -> None:
        raise StorageError("the machine stopped")

    monkeypatch.setattr("harness.prereg.freeze.append", crash)
    with pytest.raises(StorageError):
        build.freeze_plan(project, one)
    monkeypatch.undo()


def test_a_freeze_that_stopped_before_the_ledger_is_completed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = build.simple("confirm_a")
    _crash_before_ledger(project, monkeypatch, one)
    before = project.lock("confirm_a").read_bytes()
    assert exit_code(verify_project(project)) == Exit.INCOMPLETE
    report = build.freeze_plan(project, one)
    assert report.completed
    assert project.lock("confirm_a").read_bytes() == before
    assert verify_project(project) == []


def test_only_the_same_plan_completes_a_stopped_freeze(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crash_before_ledger(project, monkeypatch, build.simple("confirm_a"))
    other = build.simple("confirm_a", title="another")
    with pytest.raises(RefusedError, match="another plan was frozen under this name"):
        build.freeze_plan(project, other)
    (project.root / "models/tiny/weights.bin").write_bytes(b"x")
    with pytest.raises(RefusedError, match="remove it and freeze again"):
        build.freeze_plan(project, build.simple("confirm_a"))
    path = project.lock("confirm_a")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RefusedError, match="no ledger knows this lock"):
        build.freeze_plan(project, build.simple("confirm_a"))


def test_a_stopped_freeze_loses_its_attempt_to_a_faster_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crash_before_ledger(project, monkeypatch, build.simple("confirm_a"))
    build.freeze_plan(project, build.simple("confirm_b"))
    with pytest.raises(RefusedError, match="it would be attempt 2 on faster"):
        build.freeze_plan(project, build.simple("confirm_a"))


def test_attempts_are_counted_per_question(project: Project) -> None:
    for number, name in enumerate(("confirm_a", "confirm_b", "confirm_c"), start=1):
        assert build.freeze_plan(project, build.simple(name)).attempt == number
    other = build.simple("confirm_d", question="smaller")
    assert build.freeze_plan(project, other).attempt == 1
    assert verify_project(project) == []


def test_a_broken_ledger_takes_no_freeze(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    build.freeze_plan(project, build.simple("confirm_b"))
    Chain(project.ledger("raven")).path(2).unlink()
    with pytest.raises(RefusedError, match="tail was removed"):
        build.freeze_plan(project, build.simple("confirm_c"))
    shutil.rmtree(project.ledger("raven"))
    with pytest.raises(RefusedError):
        build.freeze_plan(project, build.simple("confirm_c"))


# T11, T12, T13 — values


@pytest.mark.parametrize(
    "text",
    ["{}", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e400}', '{"a":"\\ud800"}', '{"a": 1}', "[1]"],
)
def test_a_lock_of_odd_json_is_named_and_not_read(study: Project, text: str) -> None:
    path = study.lock(build.SELECT)
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(ChangedError, match=r"lock\.json"):
        read_lock(study, build.SELECT)


def test_a_duplicate_key_is_not_json_here() -> None:
    for text, key in ((b'{"a":1,"b":2,"a":1}', "a"), (b'{"a":{"c":2,"c":2}}', "c")):
        with pytest.raises(ValueError, match=f"'{key}' appears twice"):
            parse(text)


def test_free_text_is_kept_to_the_byte(project: Project) -> None:
    text = "one\u2028two\nthree – café cafe\u0301"
    build.freeze_plan(project, build.simple("confirm_a", title=text))
    lock = read_lock(project, "confirm_a")
    assert lock.typed_plan().title == text
    assert project.lock("confirm_a").read_bytes().count(b"\n") == 1
    assert verify_project(project) == []


def test_a_lone_surrogate_cannot_be_frozen(project: Project) -> None:
    one = build.simple("confirm_a").model_copy(update={"title": "\udcff"})
    with pytest.raises(UsageError):
        build.freeze_plan(project, one)
    assert not project.lock("confirm_a").exists()


@pytest.mark.parametrize(
    "value",
    [
        "${oc.env:HOME}", "${ oc.env: HOME }", "${now:%Y}", "${hydra.job.name}", "${hydra:job}",
        "${oc.${piece}:HOME}", "${${piece}:HOME}", "x ${oc.decode:1}", "${a.b} ${own:1}",
    ],
)  # fmt: skip
def test_a_value_from_outside_the_plan_is_refused(project: Project, value: str) -> None:
    composed = build.composed(project, build.simple("confirm_a"))
    with composed.sources[0].open("a", encoding="utf-8") as handle:
        handle.write(f'# a comment\nnested:\n  - key: "{value}"\n')
    with pytest.raises(UsageError, match=r"conf/confirm_a\.yaml: line 5"):
        freeze(project, composed, build.inputs(project))
    assert not project.lock("confirm_a").exists()


def test_an_escaped_dollar_hides_nothing(project: Project) -> None:
    composed = build.composed(project, build.simple("confirm_a"))
    with composed.sources[0].open("a", encoding="utf-8") as handle:
        handle.write('key: "\\x24{oc.env:HOME}"\n')
    with pytest.raises(UsageError, match="depends on the machine"):
        freeze(project, composed, build.inputs(project))


@pytest.mark.parametrize("value", ["${a.b}", "${..x}", "${oc.select:a,1}", "$HOME", "{now:x}"])
def test_a_reference_within_the_plan_is_allowed(value: str) -> None:
    assert volatile(value) is None


# T23 — partitions


@pytest.mark.parametrize("part", ["id", "content"])
def test_overlapping_partitions_are_refused(project: Project, part: str) -> None:
    def draw(*arguments: Any) -> list[DrawnItem]:
        items = list(build.draw(*arguments))
        one = items[1]
        odd = DrawnItem("same", one.content_digest) if part == "id" else DrawnItem(one.id, "f" * 64)
        return [items[0], odd, *items[2:]]

    with pytest.raises(UsageError, match=r"partitions.confirm: .* is also in explore"):
        build.freeze_plan(project, build.simple("confirm_a"), draw=draw)
    assert not project.lock("confirm_a").exists()


def test_too_few_items_are_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="found 9 items, expected 10"):
        build.freeze_plan(
            project,
            build.simple("confirm_a"),
            draw=lambda p, b, k, n: build.draw(p, b, k, min(n, 9)),
        )


def test_items_drawn_again_are_compared_with_the_lock(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    lock = read_lock(project, "confirm_a")
    items = [DrawnItem(name, "0" * 64) for name in lock.partitions["confirm"].ids]
    with pytest.raises(ChangedError, match="an item has other content"):
        check_drawn(lock, "confirm", items)
    with pytest.raises(ChangedError, match="item 1: found x"):
        check_drawn(lock, "confirm", [items[0], DrawnItem("x", "0" * 64), *items[2:]])
    with pytest.raises(ChangedError, match="found 9 items, expected 10"):
        check_drawn(lock, "confirm", items[:9])


# files


def test_patch_files_are_copied_and_locked(project: Project) -> None:
    arms = {
        "pristine": build.arm("pristine"),
        "ripe": build.arm("patched", "ripe", 0, patch=["patches/ripe.diff"]),
    }
    build.freeze_plan(project, build.simple("confirm_a", arms=arms))
    copy = project.prereg("confirm_a") / "patch" / "patches" / "ripe.diff"
    assert copy.read_bytes() == (project.root / "patches/ripe.diff").read_bytes()
    (project.root / "patches/ripe.diff").unlink()
    assert verify_project(project) == []
    copy.write_bytes(b"x")
    assert exit_code(verify_project(project)) == Exit.CHANGED


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "patches/link", "patches/none"])
def test_a_patch_outside_or_behind_a_link_is_refused(project: Project, name: str) -> None:
    (project.root / "patches/link").symlink_to("ripe.diff")
    arms = {"pristine": build.arm("pristine"), "ripe": build.arm("patched", patch=[name])}
    with pytest.raises(UsageError, match=r"arms\.ripe\.patch"):
        build.freeze_plan(project, build.simple("confirm_a", arms=arms))


def test_a_model_outside_the_project_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(UsageError, match="outside the project"):
        build.freeze_plan(
            project, build.simple("confirm_a"), model_files=[tmp_path / "weights.bin"]
        )


def test_a_project_without_git_has_no_commit(project: Project) -> None:
    build.freeze_plan(project, build.simple("confirm_a"))
    assert read_lock(project, "confirm_a").git is None


def test_the_commit_and_the_state_of_the_tree_are_kept(project: Project) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        command = ["git", *identity, "-C", str(project.root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    one, two = build.simple("confirm_a"), build.simple("confirm_b")
    for plan in (one, two):
        build.composed(project, plan)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    told: list[str] = []
    freeze(project, build.composed(project, one), build.inputs(project), announce=told.append)
    state = read_lock(project, "confirm_a").git
    assert state is not None
    assert (state.commit, state.dirty) == (git("rev-parse", "HEAD"), False)
    assert told and all(line.startswith("git ") for line in told)
    (project.root / "models/tiny/weights.bin").write_bytes(b"x")
    build.freeze_plan(project, two)
    state = read_lock(project, "confirm_b").git
    assert state is not None
    assert state.dirty


def test_a_composed_plan_freezes(project: Project) -> None:
    values = build.simple("confirm_a").model_dump(mode="json", by_alias=True, exclude_none=True)
    del values["plan"]
    import yaml

    (project.conf / "confirm_a.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    freeze(project, compose(project, "confirm_a"), build.inputs(project))
    assert verify_project(project) == []
    assert list(read_lock(project, "confirm_a").files.conf) == ["conf/confirm_a.yaml"]
    path = project.conf / "confirm_a.yaml"
    text = path.read_text()
    path.write_text(text + "# the bar is lower\n")  # T15
    found = verify_project(project)
    assert exit_code(found) == Exit.CHANGED
    assert "comment or layout only" in found[0].message
    path.write_text(text.replace("1.1", "1.0"))
    found = verify_project(project)
    assert exit_code(found) == Exit.CHANGED
    assert "layout" not in found[0].message


# selection


def test_a_selection_is_resolved_from_the_sealed_run(study: Project) -> None:
    lock = read_lock(study, build.CONFIRM)
    assert lock.selection is not None and lock.parents is not None
    assert lock.selection.chosen == "w4"
    assert [(f.arm, f.rank, f.admissible) for f in lock.selection.figures] == [
        ("w0", None, False), ("w4", 1, True),
    ]  # fmt: skip
    assert lock.selection.figures[0].reason == "match: found 0.5, expected at least 0.9"
    arm = lock.typed_plan().arms["ripe"]
    assert arm.cache is not None and arm.cache.window == 4
    assert lock.parents.select_lock_digest == lock_digest(study, build.SELECT)


@pytest.mark.parametrize("state", ["unfrozen", "frozen", "started", "unsealed"])
def test_an_unfinished_select_run_selects_nothing(project: Project, state: str) -> None:
    if state != "unfrozen":
        build.freeze_plan(project, build.plan(build.SELECT))
    if state in ("started", "unsealed"):
        build.start(project, build.SELECT)
    with pytest.raises(IncompleteError, match="harness run conf=select_raven"):
        build.freeze_plan(project, build.plan(build.CONFIRM))
    assert not project.lock(build.CONFIRM).exists()


def test_a_changed_select_run_selects_nothing(project: Project) -> None:
    build.freeze_plan(project, build.plan(build.SELECT))
    run = build.run_plan(project, build.SELECT)
    data = run.journal.read_bytes()
    run.journal.write_bytes(data.replace(b'"token_ids":[1,2]', b'"token_ids":[1,3]', 1))
    with pytest.raises(ChangedError, match=r"journal\.log"):
        build.freeze_plan(project, build.plan(build.CONFIRM))


def test_a_candidate_with_other_options_than_measured_is_refused(project: Project) -> None:
    build.freeze_plan(project, build.plan(build.SELECT))
    build.run_plan(project, build.SELECT)
    values = build.plan(build.CONFIRM).selection
    assert values is not None
    changed = values.model_dump(by_alias=True, exclude_none=True)
    changed["candidates"] = [{"arm": "w0", "window": 0}, {"arm": "w4", "window": 5}]
    with pytest.raises(RefusedError, match=r"w4: window: found 5, but its arm .* ran with 4"):
        build.freeze_plan(project, build.plan(build.CONFIRM, selection=changed))


def test_a_choice_typed_by_hand_is_refused(project: Project) -> None:
    one = build.plan(build.CONFIRM)
    assert one.selection is not None
    typed = one.model_copy(update={"selection": one.selection.model_copy(update={"chosen": "w0"})})
    with pytest.raises(UsageError, match="the rule chooses"):
        build.freeze_plan(project, typed)


def test_the_ledger_counts_locks_of_one_question(study: Project) -> None:
    chain = Chain(study.ledger("raven"))
    assert [body.plan for body in history(chain).locks_of("faster")] == [build.CONFIRM]
    body = PlanFrozen(
        plan="confirm_x", question="faster", attempt=7, lock_digest="1" * 64, plan_digest="2" * 64
    )
    append(chain, body)
    found = verify_project(study)
    assert any("attempt: found 7, expected 2" in finding.message for finding in found)


def test_canonical_bytes_are_what_is_kept(study: Project) -> None:
    data = study.lock(build.CONFIRM).read_bytes()
    assert canonical(parse(data)) + b"\n" == data
    assert study.lock(build.CONFIRM).stat().st_nlink == 1
