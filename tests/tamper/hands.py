"""What a hand can do to a study: change, rewrite, re-link, and set the clock."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.prereg.schedule import counts
from harness.store.canonical import canonical
from harness.store.clock import CLOCK
from harness.store.digests import digest, file_table, sha256_bytes
from harness.store.framed import frame, scan

Json = dict[str, Any]


def load(path: Path) -> Json:
    found: Json = json.loads(path.read_bytes())
    return found


def store(path: Path, value: Any) -> None:
    path.write_bytes(canonical(value) + b"\n")


def edit(path: Path, change: Callable[[Json], None]) -> None:
    """Change a JSON file and write it as the harness would."""
    value = load(path)
    change(value)
    store(path, value)


def flip(path: Path, place: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def swap_text(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def lock_of(study: Path, plan: str = "toy_confirm") -> Path:
    return study / "preregistrations" / plan / "lock.json"


def conf_of(study: Path, plan: str = "toy_confirm") -> Path:
    return study / "conf" / f"{plan}.yaml"


def run_of(study: Path, plan: str = "toy_confirm", ordinal: int = 1) -> Path:
    return next((study / "runs" / plan).glob(f"{ordinal:04d}-*"))


def record(study: Path, n: int) -> Path:
    return study / "ledgers" / "toy" / f"{n:08d}.json"


def records(study: Path) -> list[Path]:
    return sorted((study / "ledgers" / "toy").glob("0*.json"))


def number_of(study: Path, kind: str, plan: str = "toy_confirm") -> int:
    """The number of the first record of a kind about a plan."""
    for path in records(study):
        value = load(path)
        if value["kind"] == kind and value["body"]["plan"] == plan:
            return int(value["n"])
    raise AssertionError(kind)


def relink(study: Path) -> None:
    """Rewrite every record so that the chain links, and the head file with it."""
    last = "0" * 64
    paths = records(study)
    for n, path in enumerate(paths, start=1):
        value = load(path)
        value["n"], value["prev"] = n, last
        store(path, value)
        last = sha256_bytes(path.read_bytes())
    store(study / "ledgers" / "toy.head.json", {"count": len(paths), "digest": last})


def reseal(run: Path, change: Callable[[list[Json]], list[Json]]) -> None:
    """Edit a journal's records, and every digest of it within the run's own folder."""
    journal = run / "journal.log"
    found = change(scan(journal).records)
    journal.write_bytes(b"".join(frame(one) for one in found))
    seal = load(run / "seal.json")
    names = [run / name for name in seal["files"]]
    seal["files"] = file_table(run, names)
    seal["digest"] = digest(seal["files"])
    seal["records"] = counts(found)
    store(run / "seal.json", seal)


def rewrite_all(study: Path) -> None:
    """Everything that one person can rewrite: locks, seals and ledger agree again afterwards."""
    for _ in range(3):
        for path in records(study):
            value = load(path)
            body = value["body"]
            plan, run_id = body["plan"], body.get("run_id", "")
            if "lock_digest" in body:
                body["lock_digest"] = sha256_bytes(lock_of(study, plan).read_bytes())
            if value["kind"] == "plan.frozen":
                body["plan_digest"] = load(lock_of(study, plan))["plan_digest"]
            if "seal_digest" in body:
                seal = study / "runs" / plan / run_id / "seal.json"
                body["seal_digest"] = sha256_bytes(seal.read_bytes())
            store(path, value)
        relink(study)
        _rewrite_heads(study)


def _rewrite_heads(study: Path) -> None:
    for plan in ("toy_select", "toy_confirm"):
        lock = load(lock_of(study, plan))
        lock["ledger_head"] = _head(study, lock["ledger_head"]["count"])
        if lock["parents"]:
            source = run_of(study, "toy_select") / "seal.json"
            lock["parents"]["select_lock_digest"] = sha256_bytes(
                lock_of(study, "toy_select").read_bytes()
            )
            lock["parents"]["select_seal_digest"] = sha256_bytes(source.read_bytes())
            lock["selection"]["seal_digest"] = sha256_bytes(source.read_bytes())
        store(lock_of(study, plan), lock)
        run = run_of(study, plan)
        manifest = load(run / "run.json")
        manifest["lock_digest"] = sha256_bytes(lock_of(study, plan).read_bytes())
        for key in ("plan_json", "plan_digest"):
            manifest[key] = lock[key]
        store(run / "run.json", manifest)
        seal = load(run / "seal.json")
        seal["files"] = file_table(run, [run / name for name in seal["files"]])
        seal["digest"] = digest(seal["files"])
        seal["lock_digest"] = manifest["lock_digest"]
        seal["ledger_head"] = _head(study, seal["ledger_head"]["count"])
        store(run / "seal.json", seal)


def _head(study: Path, count: int) -> Json:
    data = record(study, count).read_bytes() if count else b""
    return {"count": count, "digest": sha256_bytes(data) if count else "0" * 64}


@contextlib.contextmanager
def clock(seconds: float) -> Iterator[None]:
    """Set the harness's clock ahead or back."""
    object.__setattr__(CLOCK, "offset_s", seconds)
    try:
        yield
    finally:
        object.__setattr__(CLOCK, "offset_s", 0.0)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def process(folder: Path, *words: str, **more: Any) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    code = "from harness.cli.main import entry; entry()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def one_line(text: str) -> bool:
    """Whether no traceback reached the user."""
    return "Traceback" not in text and "a bug in harness" not in text
