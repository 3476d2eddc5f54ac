"""An engine's outcome as the wire's results and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.backends.base import Counters, Result, Status, Timing
from harness.backends.http.answers import Answer, batch_times, timing_of
from harness.backends.sglang.engine import Outcome
from harness.backends.sglang.holdings import Holdings

if TYPE_CHECKING:
    from harness.tasks.published_tokenizer import PublishedTokenizer
    from harness.tasks.tokenizer import Tokenizer


def result_of(
    item: str,
    prompt: list[int],
    answer: Answer,
    start_ns: int,
    tokenizer: Tokenizer | PublishedTokenizer,
    holdings: Holdings,
) -> Result:
    """Return the result of one request.

    A request that the engine took back and ran again (`num_retractions`) was computed twice, so
    that it is an error and never a time.
    """
    status, error = _status(answer)
    good = status == "ok"
    stopped = answer.finish == "stop"
    kept = answer.ids[:-1] if stopped else answer.ids
    # A model may have more rows than its tokenizer has tokens; those have no text.
    shown = [token for token in kept if token < tokenizer.size]
    result: Result = {
        "item": item,
        "status": status,
        "token_ids": answer.ids if good else [],
        "text": tokenizer.decode(shown) if good else "",
        "prompt_tokens": len(prompt),
        "finish": "stop" if stopped else "length",
        "counters": _counters(answer, start_ns),
        "cache_bytes": holdings.of_request(len(prompt), len(answer.ids)),
    }
    if error is not None:
        result["error"] = error
    return result


def _status(answer: Answer) -> tuple[Status, str | None]:
    if answer.status == "ok" and answer.retractions > 0:
        return "error", f"retracted {answer.retractions} times; raise options.max_total_tokens"
    return answer.status, answer.error


def _counters(answer: Answer, start_ns: int) -> Counters:
    counters = answer.times(start_ns) | {"passes": len(answer.ids)}
    if answer.cached_tokens:
        counters["cached_tokens"] = answer.cached_tokens
    if answer.retractions:
        counters["retractions"] = answer.retractions
    return counters


def timing(outcome: Outcome) -> Timing:
    """Return the batch's times; where prefill never ended, each phase counts the whole.

    After a deadline, CPU times are at least the wall times: an engine that hangs uses no CPU, and
    must not look fast by that.
    """
    wall = batch_times(outcome.answers, outcome.start_ns, outcome.end_ns, streamed=True)
    prefill, decode, total = outcome.cpu
    if any(answer.status == "timeout" for answer in outcome.answers):
        prefill, decode, total = max(prefill, wall[0]), max(decode, wall[1]), max(total, wall[2])
    return timing_of(wall, (prefill, decode, total))
