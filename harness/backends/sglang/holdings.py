"""What a request holds of the engine's KV pool, by the engine's own layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.options import SglangOptions, Treatment
from harness.backends.sglang.pool import padding_bytes, pool_bytes

if TYPE_CHECKING:
    from harness.backends.sglang.arguments import Served
    from harness.looped.config import LoopedConfig

_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}


@dataclass(frozen=True)
class Holdings:
    """Bytes of the pool, as the engine reports them, and of each request."""

    pool_bytes: int
    pool_tokens: int
    page_size: int
    token_bytes: int
    """Of one token in all cache layers."""
    request_bytes: int
    """Of a request's ring rows, whether they are in use or not."""
    formula_bytes: int | None
    """Of the whole pool by formula, padding included; None for a checkpoint that only SGLang knows.
    """
    padding_bytes: int | None

    def of_request(self, prompt_tokens: int, answer_tokens: int) -> int:
        """Return the bytes that a request held at its end: all its tokens but the pending one."""
        tokens = prompt_tokens + max(answer_tokens, 1) - 1
        pages = -(-tokens // self.page_size)
        return pages * self.page_size * self.token_bytes + self.request_bytes

    @property
    def as_formula(self) -> bool:
        """Whether the engine's pool has the bytes that the formula gives."""
        return self.formula_bytes in (None, self.pool_bytes)

    def described(self) -> dict[str, Any]:
        """Return it for the record."""
        found = {
            "bytes": str(self.pool_bytes),
            "tokens": self.pool_tokens,
            "page_size": self.page_size,
            "token_bytes": self.token_bytes,
            "request_bytes": self.request_bytes,
        }
        if self.formula_bytes is not None:
            found |= {"formula_bytes": str(self.formula_bytes)}
            found |= {"of_which_padding": str(self.padding_bytes)}
        return found


def holdings_of(
    served: Served, treatment: Treatment, options: SglangOptions, pool: dict[str, int]
) -> Holdings:
    """Return the layout of an engine's pool: by formula for our models, else from its rows."""
    reported = (pool["bytes"], pool["tokens"], pool["page_size"])
    if not served.ours:
        token = pool["bytes"] // pool["rows"] if pool["rows"] else 0
        return Holdings(*reported, token, 0, None, None)
    config, size = _config(served), _SIZES[served.dtype]

    def held(tokens: int, requests: int) -> int:
        return pool_bytes(
            config,
            policy=treatment.policy,
            window=treatment.window,
            loops=treatment.loops,
            tokens=tokens,
            requests=requests,
            page_size=pool["page_size"],
            itemsize=size,
        )

    padding = padding_bytes(
        config,
        policy=treatment.policy,
        window=treatment.window,
        loops=treatment.loops,
        page_size=pool["page_size"],
        itemsize=size,
    )
    whole = held(pool["tokens"], options.max_running_requests) + padding
    return Holdings(*reported, held(1, 0), held(0, 1), whole, padding)


def _config(served: Served) -> LoopedConfig:
    from harness.looped.config_files import read_config

    return read_config(served.folder / "config.json")
