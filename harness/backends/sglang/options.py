"""The options of an `sglang` arm and what follows from its cache policy, checked at the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

BACKENDS = {"cpu": "torch_native", "cuda": "triton"}
"""SGLang's attention backend by device; the patch's own is named after it, so that both arms run
the same kernels."""
POLICIES = ("full", "deepest", "ripe")
ARCHITECTURE = "RavenForCausalLM"
"""Of the checkpoints that our model package serves; SGLang itself loads any other."""
RESERVED = frozenset({"model_path", "host", "port", "dtype", "device", "skip_tokenizer_init"})
_TOKENS_A_REQUEST = 512
_SHIPPED = Path(__file__).resolve().parents[2] / "models"


@dataclass(frozen=True)
class SglangOptions:
    """How an engine is started."""

    launch: Literal["offline", "server"] = "offline"
    """offline: sglang.Engine in a child process; server: sglang.launch_server on the loopback."""
    model: str | None = None
    """A checkpoint folder that SGLang loads by itself, where it is not the plan's model."""
    max_running_requests: int = 8
    """Requests that the engine holds at once; a larger batch is refused."""
    max_total_tokens: int | None = None
    """Tokens of the KV pool; by default 512 for each request, at most the model's context."""
    attention_backend: str | None = None
    """By default torch_native on a CPU and triton elsewhere; RIPE's own of that where patched."""
    radix_cache: bool = False
    """Whether prefixes are shared; they are then flushed before every visit."""
    cuda_graph: bool = False
    """Whether CUDA graphs are captured."""
    chunked_prefill: int | None = None
    """Tokens of a prefill chunk; -1: prompts go in one pass."""
    port: int | None = None
    """Of `launch: server`; by default a free one."""
    start_timeout_s: float = 110.0
    """Seconds for a start; keep it below limits.start_timeout_s, so that the reason is told."""
    plugins: tuple[str, ...] = ()
    """Further SGLang plugins of the arm's environment, such as a patch of one's own."""
    server_args: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of SGLang's ServerArgs, by their Python names."""


def sglang_options(values: Mapping[str, Any]) -> SglangOptions:
    """Return checked options.

    Raises:
        ValueError: naming the option, what was found and what is expected.
    """
    known = set(SglangOptions.__dataclass_fields__)
    if unknown := sorted(set(values) - known):
        raise ValueError(f"options.{unknown[0]}: not known; options are {', '.join(sorted(known))}")
    given = dict(values)
    if given.get("launch", "offline") not in ("offline", "server"):
        raise ValueError(f"options.launch: found {given['launch']!r}, expected offline or server")
    for name, least in (("max_running_requests", 1), ("max_total_tokens", 1), ("port", 1),
                        ("chunked_prefill", -1)):  # fmt: skip
        _whole(given, name, least)
    for name in ("radix_cache", "cuda_graph"):
        if given.get(name, False) not in (True, False):
            raise ValueError(f"options.{name}: found {given[name]!r}, expected true or false")
    for name in ("model", "attention_backend"):
        if not isinstance(given.get(name, ""), str):
            raise ValueError(f"options.{name}: found {given[name]!r}, expected text")  # noqa: TRY004
    patience = given.get("start_timeout_s", 1.0)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or patience <= 0:
        raise ValueError(f"options.start_timeout_s: found {patience!r}, expected seconds")
    given["plugins"] = _names(given.get("plugins", []))
    _check_arguments(given.get("server_args", {}))
    return SglangOptions(**given)


def _whole(given: Mapping[str, Any], name: str, least: int) -> None:
    value = given.get(name, least)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"options.{name}: found {value!r}, expected {least} or more")


def _names(value: Any) -> tuple[str, ...]:
    good = isinstance(value, list) and all(isinstance(n, str) and n.isidentifier() for n in value)
    if not good:
        raise ValueError(f"options.plugins: found {value!r}, expected a list of plugin names")
    return tuple(value)


def _check_arguments(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"options.server_args: found {value!r}, expected arguments by name")  # noqa: TRY004
    if taken := sorted(RESERVED & set(value)):
        raise ValueError(f"options.server_args.{taken[0]}: is set by the harness")


@dataclass(frozen=True)
class Treatment:
    """What the arm does to the cache, as the engine is told."""

    policy: str
    window: int
    prefill: str
    loops: int

    @property
    def patched(self) -> bool:
        """Whether the RIPE plugin is needed."""
        return self.policy != "full"

    @property
    def planes(self) -> str:
        """Cache planes of the served model."""
        return "shared" if self.patched else "full"

    def chunk(self, options: SglangOptions) -> int:
        """Tokens of a prefill chunk."""
        if options.chunked_prefill is not None:
            return options.chunked_prefill
        return self.window + 1 if self.prefill == "exact" and self.patched else -1

    def ripe(self, requests: int) -> str:
        """The plugin's settings; the deepest plane alone is a window of none."""
        return json.dumps(
            {"window": self.window, "loops": self.loops, "requests": requests,
             "prefill": self.prefill}
        )  # fmt: skip


def treatment_of(arm: Mapping[str, Any], model: Mapping[str, Any]) -> Treatment:
    """Return what an arm's cache and decoder ask for.

    Raises:
        ValueError: something that this backend does not do.
    """
    cache = arm.get("cache") or {"policy": "full", "prefill": "full_prompt"}
    decode = arm.get("decode") or {"kind": "sequential"}
    if decode["kind"] != "sequential":
        raise ValueError(f"decode.kind: found {decode['kind']}; backend sglang is sequential")
    if decode.get("temperature") is not None:
        raise ValueError("decode.temperature: backend sglang decodes greedily")
    if cache["policy"] not in POLICIES:
        raise ValueError(
            f"cache.policy: found {cache['policy']}; backend sglang has {', '.join(POLICIES)}"
        )
    window = cache.get("window") or 0
    return Treatment(cache["policy"], window, cache["prefill"], arm.get("loops") or model["loops"])


def checkpoint(name: str) -> Path:
    """Return the folder of a shipped model, or of a path; found without loading torch."""
    shipped = _SHIPPED / name
    if name.isidentifier() and (shipped / "config.json").is_file():
        return shipped
    return Path(name).resolve()


def architecture(folder: Path) -> str:
    """Return what a checkpoint's config says that it is.

    Raises:
        ValueError: there is no such folder, or its config names none.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return str(config["architectures"][0])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"model: {folder.name}: no config.json with architectures") from error


def pool_tokens(options: SglangOptions, folder: Path) -> int:
    """Return the tokens of the KV pool."""
    if options.max_total_tokens is not None:
        return options.max_total_tokens
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    context = config.get("block_size") or config.get("max_position_embeddings")
    longest = min(int(context or _TOKENS_A_REQUEST), _TOKENS_A_REQUEST)
    return options.max_running_requests * longest
