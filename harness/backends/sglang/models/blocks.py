"""The blocks of a looped model, made of SGLang's layers, computed as `harness.looped.block` does.

Modules are containers only and have the checkpoint's names; what they compute stands in functions.
Token rows are flat: x is [tokens, n_embd], whatever requests the tokens belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.backends.sglang.models.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict

    from harness.looped.rope import Rope

Table = tuple["Tensor", "Tensor"]


def make_block(settings: Settings, kind: str, index: int, prefix: str) -> ModuleDict:
    """One block without its weights; `kind` and `index` say which cache layers it writes."""
    from sglang.srt.layers.layernorm import RMSNorm
    from torch import nn

    config = settings.config
    norms = {
        f"norm_{number}": RMSNorm(config.n_embd, eps=config.norm_eps)
        for number in range(1, config.norms + 1)
    }
    attention = _make_attention(settings, kind, index, f"{prefix}.attn")
    return nn.ModuleDict({**norms, "attn": attention, "mlp": _make_mlp(settings, f"{prefix}.mlp")})


def _make_attention(settings: Settings, kind: str, index: int, prefix: str) -> ModuleDict:
    import torch
    from sglang.srt.layers.linear import QKVParallelLinear, RowParallelLinear
    from sglang.srt.layers.radix_attention import RadixAttention
    from torch import nn

    config = settings.config
    n, heads, groups, size = config.n_embd, config.n_heads, config.n_kv_heads, config.head_dim
    caches = nn.ModuleList()
    places = settings.cache_ids(kind, index)
    for loop, place in enumerate(places, 1):
        cache = RadixAttention(
            heads, size, size**-0.5, groups, layer_id=place, prefix=f"{prefix}.cache.{loop}"
        )
        # A cache policy needs to know the loop; a layer outside the core has none.
        cache.looped_loop = loop if len(places) > 1 else None
        cache.looped_loops = settings.loops
        caches.append(cache)
    fused = QKVParallelLinear(n, size, heads, groups, bias=False, prefix=f"{prefix}.Wqkv")
    out = RowParallelLinear(heads * size, n, bias=False, prefix=f"{prefix}.proj")
    attention = nn.ModuleDict({"Wqkv": fused, "proj": out, "cache": caches})
    if config.qk_bias:
        attention.register_parameter("qk_bias", nn.Parameter(torch.zeros(2, 1, heads, size)))
    return attention


def _make_mlp(settings: Settings, prefix: str) -> ModuleDict:
    from sglang.srt.layers.activation import SiluAndMul
    from sglang.srt.layers.linear import MergedColumnParallelLinear, RowParallelLinear
    from torch import nn

    n, inner = settings.config.n_embd, settings.config.intermediate
    return nn.ModuleDict(
        {
            "fc": MergedColumnParallelLinear(n, [inner] * 2, bias=False, prefix=f"{prefix}.fc"),
            "gated": SiluAndMul(),
            "proj": RowParallelLinear(inner, n, bias=False, prefix=f"{prefix}.proj"),
        }
    )


def run_block(
    block: Any, settings: Settings, rope: Rope, x: Tensor, table: Table, batch: Any, loop: int
) -> Tensor:
    """x [tokens, n_embd] through one block; `loop` is 1..R in the core and 1 elsewhere."""
    y = _attention(block["attn"], settings, rope, block["norm_1"](x), table, batch, loop)
    if settings.config.norms == 2:
        x = x + y
        return x + _mlp(block["mlp"], block["norm_2"](x))
    x = block["norm_2"](y + x)
    normed: Tensor = block["norm_4"](_mlp(block["mlp"], block["norm_3"](x)) + x)
    return normed


def _attention(
    attn: Any, settings: Settings, rope: Rope, x: Tensor, table: Table, batch: Any, loop: int
) -> Tensor:
    config = settings.config
    heads, groups = config.n_heads, config.n_kv_heads
    rows = x.shape[0]
    qkv = attn["Wqkv"](x)[0].view(rows, heads + 2 * groups, config.head_dim)
    qk = qkv[:, : heads + groups]
    if config.qk_bias:
        qk = qk + attn.qk_bias.view(2 * heads, config.head_dim)
    qk = rope.turn(qk, table)
    q, k, v = qk[:, :heads], qk[:, heads:], qkv[:, heads + groups :]
    out = attn["cache"][loop - 1](
        q.reshape(rows, -1), k.reshape(rows, -1), v.reshape(rows, -1), batch
    )
    mixed: Tensor = attn["proj"](out)[0]
    return mixed


def _mlp(mlp: Any, x: Tensor) -> Tensor:
    out: Tensor = mlp["proj"](mlp["gated"](mlp["fc"](x)[0]))[0]
    return out
