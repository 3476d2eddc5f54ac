"""Where token ids come from; chunks of text are never counted, since a chunk may hold several."""

from __future__ import annotations

import hashlib
from typing import Literal

from harness.backends.http.answers import Answer
from harness.backends.http.client import EndpointError

Source = Literal["ids", "logprobs", "usage"]

MEANING = {
    "ids": "the server's own",
    "logprobs": "hashes of the token texts beside its log-probs",
    "usage": "made from text and usage count: equal texts of equal count have equal ids",
}


def source_of(answer: Answer) -> Source | None:
    """Return the best source that an answer offers."""
    if answer.ids:
        return "ids"
    if answer.words:
        return "logprobs"
    return "usage" if answer.completion_tokens is not None else None


def settle_ids(answer: Answer, source: Source) -> None:
    """Give an answer its ids from the source that was agreed on at the start.

    Raises:
        EndpointError: this answer lacks it, or its counts contradict each other.
    """
    if source == "logprobs":
        answer.ids = [_hashed(word) for word in answer.words]
    if source == "usage":
        if answer.completion_tokens is None:
            raise EndpointError("protocol", NO_COUNT)
        answer.ids = _made(answer.text, answer.completion_tokens)
        return
    counted = answer.completion_tokens
    # An end token that has no text, or that is not returned, may be in usage alone.
    if counted is not None and not 0 <= counted - len(answer.ids) <= 1:
        raise EndpointError(
            "protocol", f"token ids: found {len(answer.ids)}, but usage says {counted}"
        )


NO_COUNT = (
    "the server tells neither token ids, nor log-probs, nor usage, so its tokens can't be counted; "
    "chunks of text are no tokens"
)


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:6], "big")


def _made(text: str, count: int) -> list[int]:
    """Ids that stand for a text of a known count: each for the text up to its share."""
    ends = [len(text) * (place + 1) // count for place in range(count)]
    return [_hashed(f"{place}\0{text[:end]}") for place, end in enumerate(ends)]
