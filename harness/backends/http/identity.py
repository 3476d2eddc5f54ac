"""What a server says that it is, and whether it empties its caches when asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from harness.backends.http.client import Endpoint, EndpointError

_PATIENCE_S = 10.0
_KEPT = (
    "attention_backend", "disable_radix_cache", "dtype", "max_running_requests", "tp_size",
    "max_total_num_tokens", "chunked_prefill_size", "quantization", "kv_cache_dtype",
    "disable_cuda_graph", "speculative_algorithm", "enable_deterministic_inference",
    "max_concurrent_requests", "max_input_tokens", "max_total_tokens", "model_dtype",
)  # fmt: skip
"""Settings that servers tell and that decide what is measured."""
FLUSHES = {"sglang": "/flush_cache", "vllm": "/reset_prefix_cache"}


@dataclass(frozen=True)
class Identity:
    """A server as it describes itself."""

    kind: str
    """sglang, vllm, tgi, or unknown."""
    version: str | None
    models: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


def identify(endpoint: Endpoint) -> Identity:
    """Ask a server what it is.

    Raises:
        EndpointError: no server answers there.
    """
    models = _models(endpoint)
    for path in ("/server_info", "/get_server_info"):
        if isinstance(found := _try(endpoint, path), dict) and "version" in found:
            return Identity("sglang", str(found["version"]), models, _settings(found))
    if isinstance(found := _try(endpoint, "/info"), dict) and "model_id" in found:
        return Identity("tgi", _text(found.get("version")), models, _settings(found))
    if isinstance(found := _try(endpoint, "/version"), dict) and "version" in found:
        return Identity("vllm", str(found["version"]), models)
    return Identity("unknown", None, models)


def flush(endpoint: Endpoint, identity: Identity) -> bool:
    """Ask a server to empty its prefix cache; returns whether it knows how.

    Raises:
        EndpointError: it knows how and did not.
    """
    path = FLUSHES.get(identity.kind)
    if path is None:
        return False
    try:
        endpoint.ask("POST", path, _PATIENCE_S)
    except EndpointError as error:
        if error.status in (404, 405):
            return False
        raise
    return True


def base_name(model: str) -> str:
    """Return a served model's name without the server's folders."""
    return PurePosixPath(model).name if model.startswith("/") else model


def _models(endpoint: Endpoint) -> tuple[str, ...]:
    found = _try(endpoint, "/v1/models")
    data = found.get("data") if isinstance(found, dict) else None
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    return tuple(str(row["id"]) for row in rows if "id" in row)


def _try(endpoint: Endpoint, path: str) -> Any:
    """Return what a path answers; None where the server has no such path."""
    try:
        return endpoint.ask("GET", path, _PATIENCE_S)
    except EndpointError as error:
        if error.kind in ("refused", "late"):
            raise
        return None


def _settings(found: dict[str, Any]) -> dict[str, Any]:
    plain = (str, int, float, bool)
    return {name: found[name] for name in _KEPT if isinstance(found.get(name), plain)}


def _text(value: Any) -> str | None:
    return str(value) if value is not None else None
