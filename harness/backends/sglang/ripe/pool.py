"""Ring rows behind SGLang's own: the core's cache layers are made longer when the pool is made."""

from __future__ import annotations

from typing import Any

from harness.backends.sglang.models.settings import SHARED, Settings
from harness.backends.sglang.ripe.options import Options, RipeError
from harness.backends.sglang.ripe.tables import Rings

POOL = "MHATokenToKVPool"


def core_of(model: object, options: Options) -> range:
    """The cache layers that need rings. Raises RipeError unless the model fits the options."""
    settings = getattr(model, "looped", None)
    if not isinstance(settings, Settings):
        raise RipeError(
            f"model: found {type(model).__name__}, expected a looped model of the harness"
        )
    if settings.planes != SHARED:
        raise RipeError(f"planes: found '{settings.planes}', expected '{SHARED}'")
    if settings.loops != options.loops:
        raise RipeError(f"loops: found {settings.loops} in the model, expected {options.loops}")
    return settings.core_ids


def rings_of(pool: Any, options: Options) -> Rings:
    """Where a pool's ring rows are, or will be."""
    return Rings(pool.size + pool.page_size, options.window, options.loops, options.requests + 1)


def check_pool(pool: Any) -> None:
    """Refuse pools whose rows are not one token each in one tensor. Raises RipeError."""
    if type(pool).__name__ != POOL:
        raise RipeError(f"KV pool: found {type(pool).__name__}, expected {POOL}")
    if pool.kv_cache_layout != "nhd" or pool.is_quantized_kv_cache:
        raise RipeError(
            f"KV pool: found layout '{pool.kv_cache_layout}' of {pool.store_dtype}, expected rows "
            "of tokens that are not quantised"
        )
    if pool.head_dim != pool.v_head_dim:
        raise RipeError("KV pool: found keys and values of different sizes, expected equal ones")


def grow(pool: Any, core: range, rings: Rings) -> None:
    """Replace the core's buffers by longer ones, keys and values in one allocation as before."""
    import torch

    check_pool(pool)
    if not rings.rows:
        return
    for layer in core:
        place = layer - pool.start_layer
        key = pool.k_buffer[place]
        shape = (2, rings.base + rings.rows, *key.shape[1:])
        dtype, device = key.dtype, key.device
        # The old buffer goes first, so that no layer is in memory twice.
        del key
        pool.k_buffer[place] = pool.v_buffer[place] = None
        both = torch.zeros(shape, dtype=dtype, device=device)
        pool.k_buffer[place], pool.v_buffer[place] = both[0], both[1]
