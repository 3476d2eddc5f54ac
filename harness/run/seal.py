"""Seal a run: the table of its files with one digest, written once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from harness.run.privacy import leaks, may_leak
from harness.run.state import RunState
from harness.store.canonical import Json, parse
from harness.store.clock import CLOCK, Clock
from harness.store.digests import check_table, digest, file_table
from harness.store.errors import IncompleteError, RefusedError
from harness.store.files import create_json, read_json
from harness.store.framed import AROUND, bodies
from harness.store.paths import RunPaths

FORMAT = 1


def seal(
    paths: RunPaths,
    *,
    lock_digest: str | None,
    ledger_head: Json | None,
    clock: Clock = CLOCK,
) -> Json:
    """Write and return seal.json; an existing seal is checked and returned as it is.

    Raises:
        IncompleteError: the run is neither finished nor void. RefusedError: something in it must
        not be published. ChangedError: the files differ from an existing seal.
    """
    if paths.seal.exists():
        return _existing(paths)
    manifest = read_json(paths.manifest)
    _check_privacy("run.json", manifest)
    counted = _check_journal(paths)
    for path in profiles(paths):
        _check_privacy(path.name, read_json(path))
    table = file_table(paths.root, sealed_files(paths))
    value: Json = {
        "format": FORMAT,
        "plan": manifest["plan"],
        "run_id": manifest["run_id"],
        "files": table,
        "digest": digest(table),
        "ledger_head": ledger_head,
        "lock_digest": lock_digest,
        "records": counted,
        "sealed_utc": clock.utc(),
    }
    try:
        create_json(paths.seal, value)
    except FileExistsError:
        return _existing(paths)
    return value


def sealed_files(paths: RunPaths) -> list[Path]:
    """Return the files that a seal covers; logs stay outside, as they may name the machine."""
    torn = paths.root.glob(f"{paths.journal.name}.torn.*")
    made = [path for path in (paths.telemetry, *profiles(paths)) if path.exists()]
    return [paths.manifest, paths.journal, *sorted(torn), *made]


def profiles(paths: RunPaths) -> list[Path]:
    """Return the unscored profiles of a run, by arm."""
    return sorted(paths.root.glob("profile.*.json"))


def _existing(paths: RunPaths) -> Json:
    value = read_json(paths.seal)
    table = value.get("files")
    check_table(paths.root, table if isinstance(table, dict) else {})
    return value


def _check_journal(paths: RunPaths) -> dict[str, int]:
    """Check every record once, in little memory, and count trials and visits."""
    state, kinds, size = RunState(), Counter[str](), 0
    for number, body in enumerate(bodies(paths.journal), start=1):
        size += len(body) + AROUND
        record: Json = parse(body)
        state.apply(record)
        kinds[record["kind"]] += 1
        if may_leak(body):
            _check_privacy(f"journal.log: record {number}", record)
    torn = paths.journal.stat().st_size != size
    if torn or not (state.finished or state.void):
        raise IncompleteError(f"{paths.root.name}: not finished, so it can't be sealed; resume it")
    return {"trials": kinds["trial"], "visits": kinds["visit"]}


def _check_privacy(where: str, value: object) -> None:
    for key, found in leaks(value):
        raise RefusedError(f"{where}: {key}: holds {found}, so the run is not sealed")
