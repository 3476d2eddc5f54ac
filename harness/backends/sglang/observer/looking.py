"""Facts about a running engine, read from its objects and never from its arguments."""

from __future__ import annotations

from typing import Any


def engine_facts(runner: Any) -> dict[str, Any]:
    """What a model runner holds: pool, backends, model class, and everybody's hooks."""
    import sglang

    return {
        "attention_backend": class_path(runner.attn_backend),
        "device": str(runner.device),
        "dtype": str(runner.dtype).removeprefix("torch."),
        "foreign_attention_backends": foreign_backends(),
        "hooks": hooks(),
        "model": class_path(runner.model),
        "pool": pool_facts(runner.token_to_kv_pool),
        "request_slots": int(runner.req_to_token_pool.size),
        "sglang": sglang.__version__,
    }


def pool_facts(pool: Any) -> dict[str, Any]:
    """Class and exact bytes of a KV pool; `rows` are those of each layer's key buffer."""
    buffers = [*pool.k_buffer, *pool.v_buffer]
    return {
        "buffers": len(buffers),
        "bytes": sum(buffer.numel() * buffer.element_size() for buffer in buffers),
        "class": class_path(pool),
        "page_size": int(pool.page_size),
        "rows": [int(buffer.shape[0]) for buffer in pool.k_buffer],
        "size": int(pool.size),
        "storage_bytes": _storage_bytes(buffers),
    }


def hooks() -> list[str]:
    """Every registered hook as `target|kind|plugin`, sorted."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    return sorted(
        f"{target}|{kind.value}|{source.plugin_name if source else 'unknown'}"
        for target, entries in HookRegistry._hooks.items()
        for kind, _, source in entries
    )


def foreign_backends() -> list[str]:
    """Names of attention backends that were made outside SGLang."""
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

    return sorted(
        name
        for name, make in ATTENTION_BACKENDS.items()
        if not make.__module__.startswith("sglang.")
    )


def class_path(thing: object) -> str:
    """Module and name of an object's class."""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _storage_bytes(buffers: list[Any]) -> int:
    """Bytes of the memory behind the buffers; buffers that share memory count once."""
    storages = {buffer.untyped_storage().data_ptr(): buffer for buffer in buffers}
    return sum(buffer.untyped_storage().nbytes() for buffer in storages.values())
