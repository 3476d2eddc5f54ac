"""Ten ways to cheat, each as a small change of a finished study; what catches them is not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.ledger.chain import Chain
from harness.ledger.records import history
from harness.prereg.runs import read_seal
from harness.prereg.schedule import counts
from harness.prereg.tables import table_of
from harness.store.canonical import Json, canonical
from harness.store.digests import digest, file_table, sha256_bytes
from harness.store.files import read, read_json, replace, replace_json
from harness.store.framed import frame, scan
from harness.store.paths import Project, RunPaths


@dataclass(frozen=True)
class Victim:
    """A copy of a study, and its newest run that was judged."""

    project: Project
    study: str
    plan: str
    run: RunPaths

    @property
    def chain(self) -> Chain:
        """The study's ledger."""
        return Chain(self.project.ledger(self.study))

    @property
    def conf(self) -> Path:
        """The plan's file."""
        return self.project.conf / f"{self.plan}.yaml"


@dataclass(frozen=True)
class Cheat:
    """What is tried, and how."""

    name: str
    act: Callable[[Victim], None]


def _lower_the_bar(one: Victim) -> None:
    """A comment is enough: the file's bytes are frozen."""
    replace(one.conf, read(one.conf) + b"\n# the bar was always lower\n")


def _lower_bar_and_hash(one: Victim) -> None:
    _lower_the_bar(one)
    path = one.project.lock(one.plan)
    lock: Any = read_json(path)
    plan = lock["plan_json"]
    for prediction in plan.get("predictions", []):
        low, high = prediction["region"]
        prediction["region"] = [None if low is None else low / 2, high]
    lock["plan_digest"] = digest(plan)
    lock["files"]["conf"] |= table_of(one.project, [one.conf])
    replace_json(path, lock)


def _fake_an_earlier_freeze(one: Victim) -> None:
    path = one.project.lock(one.plan)
    replace_json(path, {**read_json(path), "frozen_utc": "2020-01-01T00:00:00.000000Z"})


def _drop_the_verdict(one: Victim) -> None:
    """Remove the ledger's tail from the verdict on, and the head file's memory of it."""
    records = history(one.chain).entries
    first = next(e.record.n for e in records if e.record.kind == "verdicts" and _mine(e.body, one))
    for entry in records[first - 1 :]:
        one.chain.path(entry.record.n).unlink()


def _change_the_verdict(one: Victim) -> None:
    for record, body in history(one.chain).verdicts(one.plan, one.run.root.name):
        value: Any = read_json(one.chain.path(record.n))
        for verdict in value["body"]["verdicts"]:
            verdict["word"] = "void" if verdict["word"] == "held" else "held"
        assert body.plan == one.plan
        replace_json(one.chain.path(record.n), value)


def _change_a_time(one: Victim) -> None:
    _edit_records(one, _faster)


def _faster(records: list[Json]) -> list[Json]:
    visit = next(r for r in records if r["kind"] == "visit" and r["phase"] == "scored")
    visit["timing"] = {name: int(value * 0.9) for name, value in visit["timing"].items()}
    return records


def _drop_a_bad_block(one: Victim) -> None:
    def void(records: list[Json]) -> list[Json]:
        ended = next(r for r in records if r["kind"] == "block" and r["event"] == "finished")
        ended |= {"event": "void", "reason": "an outlier"}
        return records

    _edit_records(one, void)


def _edit_records(one: Victim, change: Callable[[list[Json]], list[Json]]) -> None:
    """Edit sealed records and write the seal anew, so that both agree with each other."""
    records = change(scan(one.run.journal).records)
    replace(one.run.journal, b"".join(frame(record) for record in records))
    seal, _ = read_seal(one.project, one.run)
    table = file_table(one.run.root, [one.run.root / name for name in seal.files])
    value = seal.model_dump(mode="json")
    value |= {"files": table, "digest": digest(table), "records": counts(records)}
    replace_json(one.run.seal, value)


def _lose_the_run(one: Victim) -> None:
    """Delete the registered run, as if it had never been, so that a better one can take over."""
    for path in sorted(one.run.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    one.run.root.rmdir()


def _amend_in_silence(one: Victim) -> None:
    """Forge an amendment's file without its record."""
    path = one.project.prereg(one.plan) / "amendments" / "0001.json"
    replace(path, canonical({"plan": one.plan, "reason": "as planned"}) + b"\n")


def _forget_an_attempt(one: Victim) -> None:
    """Call the lock a later attempt the first, in the lock and in the ledger."""
    path = one.project.lock(one.plan)
    lock: Any = read_json(path)
    lock["attempt"] = 1 if lock["attempt"] > 1 else 2
    replace_json(path, lock)
    frozen = history(one.chain).frozen(one.plan)
    assert frozen is not None
    record: Any = read_json(one.chain.path(frozen[0].n))
    record["body"] |= {"attempt": lock["attempt"], "lock_digest": sha256_bytes(read(path))}
    replace_json(one.chain.path(frozen[0].n), record)


def _mine(body: object, one: Victim) -> bool:
    return getattr(body, "plan", None) == one.plan


CHEATS: tuple[Cheat, ...] = (
    Cheat("write a lower bar into the plan, as a comment", _lower_the_bar),
    Cheat("lower the bar and recompute the lock's hashes", _lower_bar_and_hash),
    Cheat("date the lock back to 2020", _fake_an_earlier_freeze),
    Cheat("miscount the attempts, in the lock and in its ledger record", _forget_an_attempt),
    Cheat("amend the plan without telling the ledger", _amend_in_silence),
    Cheat("make one measurement a tenth faster and seal the run anew", _change_a_time),
    Cheat("call a measured block an outlier and seal the run anew", _drop_a_bad_block),
    Cheat("turn the verdicts round in the ledger", _change_the_verdict),
    Cheat("cut the verdicts off the end of the ledger", _drop_the_verdict),
    Cheat("lose the registered run and hope for a better one", _lose_the_run),
)
