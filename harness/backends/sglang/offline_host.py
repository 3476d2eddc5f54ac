"""The process that holds a `sglang.Engine`: one JSON object per line in and out.

SGLang kills its whole process tree when one of its children dies, so this is never the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

from harness.backends.http.answers import Answer
from harness.backends.http.client import EndpointError
from harness.backends.http.dialects import Native
from harness.backends.sglang.cputime import Marks, family
from harness.backends.sglang.engine import Batch, Outcome, plain_info, to_json, unfinished
from harness.backends.stdio import die_with_parent, take_wire

_NATIVE = Native()


def main() -> int:
    """Start the engine that the first line describes, then serve it until the input ends."""
    die_with_parent()
    requests, replies = take_wire()
    import sglang

    engine = sglang.Engine(**json.loads(requests.readline())["arguments"])
    _write(replies, {"info": plain_info(engine.get_server_info())})
    pids = family(os.getpid())
    for line in requests:
        _write(replies, _answer(engine, json.loads(line), pids))
    engine.shutdown()
    return 0


def _answer(engine: Any, request: dict[str, Any], pids: Sequence[int]) -> dict[str, Any]:
    try:
        if request["op"] == "flush":
            return {"flushed": bool(engine.flush_cache().success)}
        return to_json(_generate(engine, Batch(**request["batch"]), pids))
    except (ValueError, EndpointError) as error:
        return {"refused": " ".join(str(error).split())[:300]}


def _generate(engine: Any, batch: Batch, pids: Sequence[int]) -> Outcome:
    answers, marks = [Answer() for _ in batch.ids], Marks(pids)
    start = time.monotonic_ns()
    engine.loop.run_until_complete(_stream(engine, batch, answers, marks))
    end = time.monotonic_ns()
    for answer in unfinished(answers):
        answer.fail("error", "the engine ended the stream before the answer", end)
    return Outcome(answers, start, max(answer.ended_ns or end for answer in answers), marks.end())


async def _stream(engine: Any, batch: Batch, answers: list[Answer], marks: Marks) -> None:
    try:
        async with asyncio.timeout(batch.timeout_s):
            stream = await engine.async_generate(
                input_ids=batch.ids,
                sampling_params=batch.sampling(),
                return_logprob=batch.log_probs,
                stream=True,
            )
            async for event in stream:
                _take(event, answers, marks)
    except TimeoutError:
        now = time.monotonic_ns()
        for answer in unfinished(answers):
            answer.fail("timeout", f"no answer within {batch.timeout_s:g} s", now)
        engine.tokenizer_manager.abort_request(abort_all=True)


def _take(event: dict[str, Any], answers: list[Answer], marks: Marks) -> None:
    now = time.monotonic_ns()
    _NATIVE.take(event, answers, now)
    answer = answers[event.get("index", 0)]
    if answer.finish is not None:
        answer.end(now)
    marks.watch(answers)


def _write(replies: BinaryIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message).encode("ascii") + b"\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
