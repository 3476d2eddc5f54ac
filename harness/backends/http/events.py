"""Server-sent events: lines of a stream to JSON objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from harness.backends.http.client import EndpointError

DONE = "[DONE]"


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield each event's object until the stream says that it is done.

    Raises:
        EndpointError: an event is no JSON object, or the stream ends without saying so.
    """
    data: list[str] = []
    for raw in lines:
        line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            continue
        if line or not data:
            continue
        text, data = "\n".join(data), []
        if text.strip() == DONE:
            return
        yield _object(text)
    if data and "\n".join(data).strip() != DONE:
        raise EndpointError("protocol", "the stream was cut off inside an event")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise EndpointError("protocol", f"the stream holds no JSON object: {text[:80]}")
    return value
