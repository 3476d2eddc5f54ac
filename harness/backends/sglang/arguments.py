"""What an engine is started with: its arguments, its environment and its folders."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.backends.sglang.options import (
    ARCHITECTURE,
    BACKENDS,
    SglangOptions,
    Treatment,
    architecture,
    pool_tokens,
)

DIST = Path(__file__).parent / "dist"
MODELS = "harness.backends.sglang.models"
OBSERVER, RIPE = "harness_observer", "harness_ripe"


@dataclass(frozen=True)
class Start:
    """Everything that a start of an engine needs."""

    arguments: dict[str, Any]
    environment: dict[str, str]
    report: Path
    scratch: Path


@dataclass(frozen=True)
class Served:
    """The checkpoint of an arm."""

    folder: Path
    device: str
    dtype: str
    threads: int

    @property
    def ours(self) -> bool:
        """Whether our model package serves it."""
        return architecture(self.folder) == ARCHITECTURE


def start_of(
    served: Served, options: SglangOptions, treatment: Treatment, seed: str, scratch: Path
) -> Start:
    """Return a start in a folder of its own, with the view of the checkpoint made.

    Raises:
        ValueError: a patch for a checkpoint that only SGLang knows.
    """
    if treatment.patched and not served.ours:
        raise ValueError(
            f"cache.policy: {treatment.policy} needs a checkpoint in the layout of {ARCHITECTURE}"
        )
    report, temporary = scratch / "report", scratch / "t"
    for folder in (report, temporary):
        folder.mkdir(parents=True)
    path = _view(served, treatment, scratch / "view") if served.ours else served.folder
    return Start(
        arguments=_arguments(path, served, options, treatment, seed),
        environment=_environment(served, options, treatment, report, temporary),
        report=report,
        scratch=scratch,
    )


def _view(served: Served, treatment: Treatment, target: Path) -> Path:
    from harness.backends.sglang.view import make_view

    make_view(
        served.folder, target, loops=treatment.loops, planes=treatment.planes, dtype=served.dtype
    )
    return target


def _arguments(
    path: Path, served: Served, options: SglangOptions, treatment: Treatment, seed: str
) -> dict[str, Any]:
    cpu = served.device == "cpu"
    backend = f"{'ripe_' if treatment.patched else ''}{BACKENDS[served.device]}"
    found: dict[str, Any] = {
        "model_path": str(path),
        "device": served.device,
        "dtype": served.dtype,
        "attention_backend": options.attention_backend or backend,
        "sampling_backend": "pytorch" if cpu else None,
        "grammar_backend": "none",
        "disable_cuda_graph": not options.cuda_graph,
        "disable_radix_cache": not options.radix_cache,
        "max_total_tokens": pool_tokens(options, served.folder),
        # SGLang's own guess grows with the longest prefill and can leave nothing of a CPU's memory.
        "mem_fraction_static": 0.5 if cpu else None,
        "max_running_requests": options.max_running_requests,
        "chunked_prefill_size": treatment.chunk(options),
        "skip_tokenizer_init": True,
        "skip_server_warmup": True,
        "stream_interval": 1,
        "random_seed": zlib.crc32(seed.encode()) & 0x7FFFFFFF,
        "log_level": "warning",
        # An idle scheduler would spin, and take the other arm's core and its own CPU time.
        "sleep_on_idle": True,
    }
    found |= options.server_args
    return {name: value for name, value in found.items() if value is not None}


def _environment(
    served: Served, options: SglangOptions, treatment: Treatment, report: Path, temporary: Path
) -> dict[str, str]:
    plugins = [OBSERVER, *([RIPE] if treatment.patched else []), *options.plugins]
    shown = [DIST / "observer", *([DIST / "ripe"] if treatment.patched else [])]
    paths = [*map(str, shown), os.environ.get("PYTHONPATH", "")]
    found = {
        **_inherited(os.environ),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": str(served.threads),
        "SGLANG_PLUGINS": ",".join(plugins),
        "HARNESS_ENGINE_REPORT": str(report),
        "TMPDIR": str(temporary),
        "HF_HUB_OFFLINE": "1",
    }
    if served.device == "cpu":
        found["SGLANG_USE_CPU_ENGINE"] = "1"
    if served.ours:
        found["SGLANG_EXTERNAL_MODEL_PACKAGE"] = MODELS
    if treatment.patched:
        found["HARNESS_RIPE"] = treatment.ripe(options.max_running_requests)
    return found


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's environment without what would patch an engine behind the plan's back.

    SGLang imports thousands of modules: where nobody may keep their compiled form, each start
    takes minutes.
    """
    patching = ("SGLANG_PLUGINS", "SGLANG_EXTERNAL_MODEL_PACKAGE", "HARNESS_RIPE")
    dropped = (*patching, "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in environment.items() if name not in dropped}
