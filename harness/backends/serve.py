"""The worker's loop: read a request, let the engine answer it, write the reply."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, BinaryIO, cast

from harness.backends.base import PROTOCOL, Backend, BackendError, Generate, Hello
from harness.backends.profiling import profile
from harness.backends.stdio import die_with_parent, take_wire

Message = dict[str, Any]


def serve(backend: Backend) -> int:
    """Answer requests until `close` or the end of standard input; returns the exit status."""
    die_with_parent()
    requests, replies = take_wire()
    for line in requests:
        reply, closing = answer(backend, line)
        _write(replies, reply)
        if closing:
            break
    return 0


def answer(backend: Backend, line: bytes) -> tuple[Message, bool]:
    """Return the reply to one request line, and whether the worker should end."""
    try:
        request = json.loads(line.decode("utf-8"))
        operation = request["op"]
        return {"ok": True, **_dispatch(backend, operation, request)}, operation == "close"
    except BackendError as error:
        return _failure(error.kind, error), False
    except ValueError as error:
        return _failure("value", error), False
    except Exception as error:  # noqa: BLE001 - the wire reports every failure, whatever it is
        traceback.print_exc(file=sys.stderr)
        return _failure("oom" if _out_of_memory(error) else "bug", error), False


def _dispatch(backend: Backend, operation: str, request: Message) -> Message:
    match operation:
        case "hello":
            if request.get("protocol") != PROTOCOL:
                raise ValueError(f"protocol {request.get('protocol')!r} is not {PROTOCOL}")
            greeting = backend.hello(cast("Hello", request))
            can = {"selftest": hasattr(backend, "selftest"), "profile": True}
            return {"protocol": PROTOCOL, **can, **greeting}
        case "probe":
            return {**backend.probe()}
        case "reset":
            return {**backend.reset()}
        case "generate":
            return {"id": request["id"], **backend.generate(cast("Generate", request))}
        case "profile":
            uses_torch = bool(getattr(backend, "uses_torch", False))
            return profile(
                lambda: backend.generate(cast("Generate", request)),
                torch=uses_torch,
                tool=request.get("tool"),
            )
        case "selftest" if hasattr(backend, "selftest"):
            return {"checks": backend.selftest([str(prompt) for prompt in request["prompts"]])}
        case "close":
            backend.close()
            return {}
        case _:
            raise ValueError(f"op {operation!r} is not known")


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__


def _failure(kind: str, error: Exception) -> Message:
    text = " ".join(str(error).split()) or type(error).__name__
    named = (
        text if isinstance(error, BackendError | ValueError) else f"{type(error).__name__}: {text}"
    )
    return {"ok": False, "kind": kind, "error": named[:500]}


def _write(replies: BinaryIO, reply: Message) -> None:
    try:
        data = json.dumps(reply, allow_nan=False)
    except (TypeError, ValueError) as error:
        data = json.dumps(_failure("bug", error))
    replies.write(data.encode("ascii") + b"\n")
    replies.flush()
