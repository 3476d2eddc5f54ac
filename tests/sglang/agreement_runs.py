"""Starts engines for the agreement tests: a subprocess each, a deadline, nothing left over."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import harness
from harness.backends.sglang.report import read_counters, read_facts
from harness.run.arm_environment import recipe_environment
from harness.store.paths import Project


def interpreter() -> str:
    """Name the interpreter that has SGLang: as told, or as built in this project, or nothing."""
    built = recipe_environment(Project(Path(__file__).resolve().parents[2]), "sglang", "cpu")
    known = str(built.python) if built.record.is_file() else ""
    return os.environ.get("HARNESS_SGLANG_PYTHON", known)


PYTHON = interpreter()
SCRIPT = Path(__file__).with_name("agreement_script.py")
PACKAGE = Path(harness.__file__).parent
DIST = PACKAGE / "backends" / "sglang" / "dist"
DEADLINE_S = 300


@dataclass
class Engine:
    """What to start: a model folder, and the patch's settings where it is patched."""

    model: Path
    ripe: dict[str, Any] | None = None
    external: bool = True
    python: str = PYTHON
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What an engine did: results of each call, counters, facts, and its standard error."""

    results: list[list[dict[str, Any]]]
    counters: dict[str, int]
    facts: list[dict[str, Any]]
    stderr: str
    code: int

    def rows(self, call: int, row: int, vocab: int) -> np.ndarray:
        """Log-probs [steps, vocab] that a forced row met."""
        found = self.results[call][row]
        numbers = np.fromfile(found["file"], dtype=np.float32).reshape(-1, vocab)
        return numbers[: len(found["tokens"])]


def arguments(engine: Engine, requests: int) -> dict[str, Any]:
    """The engine's arguments, with what every engine here has in common."""
    return {
        "model_path": str(engine.model),
        "skip_tokenizer_init": True,
        "device": "cpu",
        "attention_backend": "torch_native" if engine.ripe is None else "ripe_torch_native",
        "sampling_backend": "pytorch",
        "grammar_backend": "none",
        "dtype": "float32",
        "disable_cuda_graph": True,
        "disable_radix_cache": True,
        "enable_custom_logit_processor": True,
        "max_total_tokens": 2048,
        "max_running_requests": requests,
        "chunked_prefill_size": -1,
        # Without chunks SGLang reserves so much that nothing is left, unless it is told a share.
        "mem_fraction_static": 0.5,
        "skip_server_warmup": True,
        "random_seed": 1,
        "log_level": "warning",
        **engine.arguments,
    }


def environment(engine: Engine, folder: Path) -> dict[str, str]:
    """The engine's environment: the package by a link, plugins, and where they report."""
    wire, report = folder / "wire", folder / "report"
    wire.mkdir()
    report.mkdir()
    (wire / "harness").symlink_to(PACKAGE)
    plugins = ["observer"] if engine.ripe is None else ["observer", "ripe"]
    paths = [str(wire), *(str(DIST / name) for name in plugins)]
    inherited = os.environ.get("PYTHONPATH")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])]),
        "SGLANG_USE_CPU_ENGINE": "1",
        "OMP_NUM_THREADS": "1",
        "SGLANG_PLUGINS": ",".join(f"harness_{name}" for name in plugins),
        "HARNESS_ENGINE_REPORT": str(report),
        **engine.variables,
    }
    if engine.external:
        env["SGLANG_EXTERNAL_MODEL_PACKAGE"] = "harness.backends.sglang.models"
    if engine.ripe is not None:
        env["HARNESS_RIPE"] = json.dumps(engine.ripe)
    return env


def run(engine: Engine, calls: list[dict[str, Any]], folder: Path, *, requests: int = 4) -> Outcome:
    """Start an engine, make the calls, stop it. A failed start is an outcome too."""
    folder.mkdir(parents=True, exist_ok=True)
    env = environment(engine, folder)
    job, result = folder / "job.json", folder / "result.json"
    job.write_text(json.dumps({"arguments": arguments(engine, requests), "calls": calls}))
    with (folder / "stderr").open("w+") as stderr:
        process = subprocess.Popen(
            [engine.python, str(SCRIPT), str(job), str(result)],
            env=env,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            code = process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            _end(process)
        stderr.seek(0)
        text = stderr.read()
    results = json.loads(result.read_text()) if result.is_file() else []
    report = folder / "report"
    return Outcome(results, read_counters(report), read_facts(report), text, code)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole session that the engine was started in."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
