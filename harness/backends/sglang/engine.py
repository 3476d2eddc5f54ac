"""What the worker needs of an engine, whichever way it was launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from harness.backends.http.answers import Answer

PLAIN = (str, int, float, bool)
_PATHS = ("model_path", "tokenizer_path", "served_model_name", "launch_command")


class EngineError(Exception):
    """The engine died, or never started; the text is its last words."""

    def __init__(self, message: str, *, memory: bool = False) -> None:
        super().__init__(message)
        self.memory = memory


class EngineHungError(EngineError):
    """The engine is there but did not answer by the deadline, so that it had to be ended."""


class EngineRefusedError(Exception):
    """The engine refused a request and still runs."""


@dataclass(frozen=True)
class Batch:
    """What is generated: token ids in, greedily, until a stop token or the limit."""

    ids: list[list[int]]
    max_tokens: int
    stop_ids: list[int]
    timeout_s: float
    log_probs: bool = False

    def sampling(self) -> dict[str, Any]:
        """SGLang's sampling parameters.

        `ignore_eos` would also ignore the stop tokens, so that it is said only where there are
        none. A checkpoint that only SGLang knows also ends with its own end token.
        """
        return {
            "temperature": 0,
            "max_new_tokens": self.max_tokens,
            "stop_token_ids": self.stop_ids,
            "ignore_eos": not self.stop_ids,
        }


@dataclass(frozen=True)
class Outcome:
    """A batch's answers, its ends on the monotonic clock, and (prefill, decode, total) CPU time."""

    answers: list[Answer]
    start_ns: int
    end_ns: int
    cpu: tuple[int, int, int]


class Engine(Protocol):
    """A running SGLang."""

    info: dict[str, Any]
    """Its resolved arguments, plain values only."""

    def generate(self, batch: Batch) -> Outcome:
        """Run a batch.

        Raises:
            EngineError: it died or hung. EngineRefusedError: it refused.
        """
        ...

    def flush(self) -> None:
        """Empty the prefix cache. Raises as `generate` does."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def last_words(self) -> str:
        """Return how it ended, in one line."""
        ...

    def stop(self) -> None:
        """End it with everything that it started."""
        ...


def plain_info(found: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of SGLang's own description, without folders."""
    return {
        name: value
        for name, value in sorted(found.items())
        if isinstance(value, PLAIN)
        and name not in _PATHS
        and not name.endswith(("_key", "password"))
        and not str(value).startswith("/")
    }


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON values."""
    return {
        "answers": [asdict(answer) for answer in outcome.answers],
        "start_ns": outcome.start_ns,
        "end_ns": outcome.end_ns,
        "cpu": list(outcome.cpu),
    }


def from_json(found: dict[str, Any]) -> Outcome:
    """Return the outcome that `to_json` wrote."""
    answers = [_answer(one) for one in found["answers"]]
    prefill, decode, total = found["cpu"]
    return Outcome(answers, found["start_ns"], found["end_ns"], (prefill, decode, total))


def _answer(found: dict[str, Any]) -> Answer:
    stamps = [(int(at), int(count)) for at, count in found["stamps"]]
    return Answer(**{**found, "stamps": stamps})


def all_late(batch: Batch, start_ns: int, end_ns: int) -> Outcome:
    """Return what became of a batch whose engine never answered."""
    answers = [Answer() for _ in batch.ids]
    for answer in answers:
        answer.fail("timeout", f"no answer within {batch.timeout_s:g} s", end_ns)
    spent = max(1, end_ns - start_ns)
    return Outcome(answers, start_ns, end_ns, (spent, spent, spent))


def unfinished(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers that have not ended."""
    return [answer for answer in answers if not answer.done]
