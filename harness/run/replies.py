"""Check a worker's reply to `generate` before anything of it reaches the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.run.privacy import scrub
from harness.run.process import WorkerReplyError
from harness.store.canonical import Json

TIMINGS = (
    "prefill_ns", "decode_ns", "total_ns", "prefill_cpu_ns", "decode_cpu_ns", "total_cpu_ns",
)  # fmt: skip
STATUSES = ("ok", "nan", "error", "oom", "timeout")
"""From good to bad; a visit is as bad as its worst item."""

_LARGEST = (1 << 53) - 1


def natural(reply: Json, *path: str) -> int:
    """Return the natural number at `path`.

    Raises:
        WorkerReplyError: it is missing, or something else is there.
    """
    value: Any = reply
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise WorkerReplyError("bug", f"{'.'.join(path)}: found {value!r}, expected a whole number")
    return value


def counters(value: Any) -> dict[str, int]:
    """Return counters by name; absent ones are an empty table."""
    table = value if value is not None else {}
    if not isinstance(table, dict):
        raise WorkerReplyError("bug", "counters: expected an object")
    return {str(name): natural(table, name) for name in table}


def results(reply: Json, wanted: Sequence[str]) -> list[Json]:
    """Return one checked result per wanted item, in that order.

    Raises:
        WorkerReplyError: an item is missing, repeated or unknown, or a field is malformed.
    """
    entries = reply.get("results")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise WorkerReplyError("bug", "results: expected a list of objects")
    found = [str(entry.get("item")) for entry in entries]
    if sorted(found) != sorted(wanted):
        raise WorkerReplyError("bug", f"results: found {found[:3]}, expected the items asked for")
    by_item = {name: _result(entry) for name, entry in zip(found, entries, strict=True)}
    return [by_item[name] for name in wanted]


def _result(entry: Json) -> Json:
    status, text, ids = entry.get("status"), entry.get("text"), entry.get("token_ids")
    if status not in STATUSES:
        raise WorkerReplyError("bug", f"status: found {status!r}, expected {', '.join(STATUSES)}")
    if not isinstance(entry.get("near_ties", []), list):
        raise WorkerReplyError("bug", "near_ties: expected a list")
    if not isinstance(text, str) or not isinstance(ids, list):
        raise WorkerReplyError("bug", "text and token_ids: expected text and a list")
    result: Json = {
        "status": status,
        "token_ids": [natural({"token_ids": token}, "token_ids") for token in ids],
        "text": text.encode("utf-8", "replace").decode("utf-8"),
        "prompt_tokens": natural(entry, "prompt_tokens"),
        "finish": "length" if entry.get("finish") == "length" else "stop",
        "counters": counters(entry.get("counters")),
        "cache_bytes": str(natural(entry, "cache_bytes")),
    }
    if entry.get("error"):
        result["error"] = scrub(str(entry["error"]))[:300]
    if entry.get("near_ties"):
        result["near_ties"] = [_near_tie(tie) for tie in entry["near_ties"]]
    return result


def _near_tie(tie: Any) -> list[float]:
    if not isinstance(tie, list) or len(tie) != 2 or not isinstance(tie[1], int | float):
        raise WorkerReplyError("bug", "near_ties: expected pairs of a place and a margin")
    return [natural({"place": tie[0]}, "place"), tie[1]]


def blank(status: str) -> Json:
    """Return the result of an item that the worker never answered."""
    return {
        "status": status,
        "token_ids": [],
        "text": "",
        "prompt_tokens": 0,
        "finish": "length",
        "counters": {},
        "cache_bytes": "0",
    }
