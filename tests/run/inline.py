"""Workers without processes, so that hundreds of runs take seconds; the wire is the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.backends.fake import FakeBackend
from harness.backends.serve import answer
from harness.run.process import WorkerReplyError
from harness.store.canonical import Json


class InlineWorker:
    """A fake engine behind the interface of `WorkerProcess`."""

    pid = 0
    ports: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.waiting: list[Json] = []

    def request(self, message: Json, timeout_s: float, tick: Any = None) -> Json:
        reply, _ = answer(self.backend, json.dumps(message).encode())
        if reply["ok"] is not True:
            raise WorkerReplyError(str(reply["kind"]), str(reply["error"]))
        return json.loads(json.dumps(reply))  # type: ignore[no-any-return]

    def send(self, message: Json, timeout_s: float) -> None:
        self.waiting.append(message)

    def receive(self, timeout_s: float) -> Json:
        return self.request(self.waiting.pop(0), timeout_s)

    def close(self, grace_s: float = 2.0) -> int:
        return 0

    def kill(self, grace_s: float = 0.0) -> int:
        return 0


def inline(arm: str, log: Path, under: Any = ()) -> Any:
    return InlineWorker()
