"""What was fixed before the first measurement: hashes, dates and the selection."""

from __future__ import annotations

from harness.report.format import NOT_RECORDED, count, finite, number
from harness.report.grid import Cell, Column, Grid, Row, cells
from harness.report.quantity import part, rows
from harness.store.canonical import Json, canonical
from harness.store.digests import digest, sha256_bytes


def lock_digest(lock: Json) -> str:
    """Return the SHA-256 of the lock file's bytes."""
    return sha256_bytes(canonical(lock) + b"\n")


def locked_grid(analysis: Json, lock: Json | None, ledger_head: Json | None) -> Grid:
    """Return everything that identifies the plan, the run and the ledger."""
    table = [*_lock_rows(lock or {}), *_run_rows(analysis, lock), *_head_rows(ledger_head)]
    columns = (Column("what", "What"), Column("value", "Value", wide=True))
    lines = tuple(
        Row(key, (Cell(title), Cell(text, tone=tone))) for key, title, text, tone in table
    )
    return Grid("locked", "What was locked", columns, lines)


_Line = tuple[str, str, str, str]


def _line(key: str, title: str, value: object, tone: str = "") -> _Line:
    return (key, title, str(value) if value not in (None, "") else NOT_RECORDED, tone)


def _lock_rows(lock: Json) -> list[_Line]:
    if not lock:
        return [_line("lock", "Lock", "none: nothing was frozen before this run")]
    git = part(lock, "git")
    commit = f"{git.get('commit')}{' with uncommitted changes' if git.get('dirty') else ''}"
    return [
        _line("frozen", "Frozen", lock.get("frozen_utc")),
        _line("question", "Question", lock.get("question")),
        _line("lock", "Lock, SHA-256", lock_digest(lock), "code"),
        _line("plan", "Plan, SHA-256", lock.get("plan_digest"), "code"),
        _line("order", "Order table, SHA-256", lock.get("order_digest"), "code"),
        _line("nonce", "Nonce", lock.get("nonce"), "code"),
        *_partition_rows(part(lock, "partitions")),
        *_file_rows(part(lock, "files")),
        _line("device", "Device class and threads", _device(lock)),
        _line("commit", "Commit", commit if git else "", "code" if git else ""),
        _line("tool", "Tool version", lock.get("tool_version")),
        *_parent_rows(part(lock, "parents")),
    ]


def _device(lock: Json) -> str:
    return f"{lock.get('device_class') or NOT_RECORDED}, threads {count(lock.get('threads'))}"


def _partition_rows(partitions: Json) -> list[_Line]:
    return [
        _line(
            f"partition_{name}",
            f"Partition {name}, {count(part(partitions, name).get('count'))} items",
            part(partitions, name).get("content_digest"),
            "code",
        )
        for name in sorted(partitions)
    ]


def _file_rows(files: Json) -> list[_Line]:
    return [
        _line(f"files_{name}", f"Files of {name}, {len(part(files, name))}", digest(table), "code")
        for name, table in sorted(files.items())
        if table
    ]


def _parent_rows(parents: Json) -> list[_Line]:
    return [
        _line(f"parent_{key}", f"Parent, {key.replace('_', ' ')}", parents[key], "code")
        for key in sorted(parents)
    ]


def _run_rows(analysis: Json, lock: Json | None) -> list[_Line]:
    locked, run = (lock or {}).get("plan_digest"), analysis.get("plan_digest")
    same = [] if run == locked else [_line("run_plan", "Plan of the run, SHA-256", run, "code")]
    return [
        *same,
        _line("run", "Run", analysis.get("run_id"), "code"),
        _line("seal", "Seal, SHA-256", analysis.get("seal_digest"), "code"),
    ]


def _head_rows(head: Json | None) -> list[_Line]:
    if not head:
        return [_line("head", "Ledger head", "")]
    title = f"Ledger head, {count(head.get('count'))} records"
    return [_line("head", title, head.get("digest"), "code")]


def selection_grid(lock: Json | None) -> Grid | None:
    """Return every candidate with its figures and the reason that shut it out, if one did."""
    selection = part(lock or {}, "selection")
    figures = rows(selection, "figures")
    if not figures:
        return None
    metrics = sorted({name for figure in figures for name in part(figure, "metrics")})
    columns = (
        Column("rank", "Rank", right=True),
        Column("arm", "Candidate"),
        *(Column(name, name.replace("_", " "), right=True) for name in metrics),
        Column("admissible", "Admissible", wide=True),
    )
    chosen = selection.get("chosen")
    table = tuple(
        Row(str(figure.get("arm")), _candidate(figure, metrics, chosen)) for figure in figures
    )
    return Grid("selection", "How the candidate was selected", columns, table)


def _candidate(figure: Json, metrics: list[str], chosen: object) -> tuple[Cell, ...]:
    name, rank = str(figure.get("arm")), finite(figure.get("rank"))
    values = [finite(part(figure, "metrics").get(metric)) for metric in metrics]
    figures = [NOT_RECORDED if value is None else number(value, 4) for value in values]
    reason = figure.get("reason") or "reason not recorded"
    return (
        *cells("unranked" if rank is None else count(rank)),
        Cell(name, note="chosen" if name == chosen else ""),
        *cells(*figures),
        Cell("yes" if figure.get("admissible") is True else f"no: {reason}"),
    )


def rule_words(lock: Json | None) -> str:
    """Return the frozen selection rule in words."""
    selection = part(lock or {}, "selection")
    rule = part(selection, "rule")
    if not rule:
        return ""
    goals = [f"{goal} {rule[goal]}" for goal in ("maximize", "minimize") if rule.get(goal)]
    limits = [_limit(limit) for limit in rows(rule, "subject_to")]
    subject = f" subject to {' and '.join(limits)}" if limits else ""
    source = selection.get("source_plan") or NOT_RECORDED
    return f"Rule: {' and '.join(goals)}{subject}, applied to the sealed run of {source}."


def _limit(limit: Json) -> str:
    least, most = limit.get("at_least"), limit.get("at_most")
    sign, bound = ("at least", least) if least is not None else ("at most", most)
    return f"{limit.get('metric')} {sign} {bound}"
