"""A worker of backend `sglang` on the fake engine, and plans that run it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.backends.serve import answer
from harness.backends.sglang.worker import SglangBackend

FAKE = Path(__file__).parent / "fake"
FULL = {"policy": "full", "prefill": "full_prompt"}
RIPE = {"policy": "ripe", "window": 4, "prefill": "full_prompt"}
MODEL = {"name": "tiny_ripe", "loops": 32, "dtype": "float32", "device": "cpu"}


def pretend(monkeypatch: pytest.MonkeyPatch, **vices: Any) -> None:
    """From now on, an engine that starts is the fake one, with these vices."""
    paths = [str(FAKE), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.setenv("FAKE_SGLANG", json.dumps(vices))


def arm(role: str, cache: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {
        "role": role,
        "backend": "sglang",
        "cache": cache or (RIPE if role == "patched" else FULL),
        "decode": {"kind": "sequential"},
        "options": {"start_timeout_s": 60, **options},
    }


def hello(arm: dict[str, Any], **task: Any) -> dict[str, Any]:
    task = {"max_tokens": 16, "stop": "\n", **task}
    return {"op": "hello", "protocol": 1, "arm": arm, "model": MODEL, "task": task, "threads": 1,
            "seed": "7"}  # fmt: skip


def batch(*prompts: str, timeout_s: float = 20.0) -> dict[str, Any]:
    items = [{"id": f"i{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
    return {"op": "generate", "id": 1, "items": items, "timeout_s": timeout_s}


def ask(backend: SglangBackend, request: Any) -> dict[str, Any]:
    return answer(backend, json.dumps(request).encode())[0]
