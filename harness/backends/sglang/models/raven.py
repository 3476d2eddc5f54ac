"""Huginn and Raven-Llama for SGLang: prelude once, core R times, coda once.

Both layouts have the same architecture name; config.json says which one it is. SGLang finds the
class as `EntryClass`, which is made on first use, so that importing this module costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.backends.sglang.models.blocks import make_block, run_block
from harness.backends.sglang.models.loading import load
from harness.backends.sglang.models.settings import (
    CODA,
    CORE,
    KEY,
    PRELUDE,
    Settings,
    SettingsError,
    settings_from,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict


def __getattr__(name: str) -> Any:
    if name == "EntryClass":
        return model_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def model_class() -> type:
    """The model class; its name is the architecture's."""
    import torch
    from torch import nn

    class RavenForCausalLM(nn.Module):
        """A looped model whose cache layers follow `Settings.cache_ids`."""

        def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:  # noqa: ARG002
            super().__init__()
            self.config = config
            self.looped = settings_from(getattr(config, KEY, None))
            check_engine(quant_config)
            build(self, self.looped)

        @torch.no_grad()
        def forward(
            self, input_ids: Tensor, positions: Tensor, forward_batch: Any, **_named: Any
        ) -> Any:
            """Logits of the places that SGLang asks for."""
            return logits(self, input_ids, positions, forward_batch)

        def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
            """Fill the parameters from a checkpoint."""
            return load(self, self.looped, weights)

    return RavenForCausalLM


def check_engine(quant_config: Any) -> None:
    """Refuse what these layers were never tried with."""
    from sglang.srt.runtime_context import get_parallel

    if quant_config is not None:
        raise SettingsError("quantization: found one, expected none for a looped model")
    for name in ("tp_size", "pp_size"):
        size = getattr(get_parallel(), name)
        if size != 1:
            raise SettingsError(f"{name}: found {size}, expected 1 for a looped model")


def build(model: Any, settings: Settings) -> None:
    """Give a model its modules, and SGLang's pool the number of cache layers."""
    from sglang.srt.layers.layernorm import RMSNorm
    from sglang.srt.layers.linear import ReplicatedLinear
    from sglang.srt.layers.logits_processor import LogitsProcessor
    from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
    from torch import nn

    config = settings.config
    width = config.n_embd
    model.transformer = nn.ModuleDict(
        {
            "wte": VocabParallelEmbedding(config.vocab, width),
            "adapter": ReplicatedLinear(2 * width, width, bias=False, prefix="adapter"),
            "ln_f": RMSNorm(width, eps=config.norm_eps),
            PRELUDE: _blocks(settings, PRELUDE, config.prelude),
            CORE: _blocks(settings, CORE, config.core),
            CODA: _blocks(settings, CODA, config.coda),
        }
    )
    tied = config.tied
    model.lm_head = model.transformer["wte"] if tied else ParallelLMHead(config.vocab, width)
    model.logits_processor = LogitsProcessor(model.config)
    model.rope_tables = None
    # The pool's size follows these two attributes where a model has them.
    model.start_layer, model.end_layer = 0, settings.cache_layers


def _blocks(settings: Settings, kind: str, count: int) -> Any:
    from torch import nn

    prefix = f"transformer.{kind}"
    blocks: list[ModuleDict] = [
        make_block(settings, kind, index, f"{prefix}.{index}") for index in range(count)
    ]
    return nn.ModuleList(blocks)


def logits(model: Any, input_ids: Tensor, positions: Tensor, batch: Any) -> Any:
    """What SGLang's logits processor makes of the states of a pass."""
    x = run(model, input_ids, positions, batch)
    return model.logits_processor(input_ids, x, model.lm_head, batch)


def run(model: Any, input_ids: Tensor, positions: Tensor, batch: Any) -> Tensor:
    """Token ids [tokens] at absolute positions [tokens] to normed states [tokens, n_embd]."""
    import torch

    from harness.looped.start import start_state

    settings: Settings = model.looped
    config, parts = settings.config, model.transformer
    rope = _rope(model)
    table = rope.at(positions)

    def through(kind: str, x: Tensor, loop: int) -> Tensor:
        for block in parts[kind]:
            x = run_block(block, settings, rope, x, table, batch, loop)
        return x

    e = through(PRELUDE, parts["wte"](input_ids) * config.embed_scale, 1)
    x = start_state(
        settings.start, settings.seed, positions, config.n_embd, config.state_std, e.dtype
    )
    for loop in range(1, settings.loops + 1):
        x = through(CORE, parts["adapter"](torch.cat([x, e], -1))[0], loop)
    if config.norm_before_coda:
        x = parts["ln_f"](x)
    last: Tensor = parts["ln_f"](through(CODA, x, 1))
    return last


def _rope(model: Any) -> Any:
    """The rotary table; SGLang's own would be rounded to bfloat16 in a bfloat16 model."""
    if model.rope_tables is None:
        from harness.looped.rope import Rope

        weight = model.transformer["wte"].weight
        model.rope_tables = Rope(model.looped.config, device=weight.device, dtype=weight.dtype)
    return model.rope_tables
