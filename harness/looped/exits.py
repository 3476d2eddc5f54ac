"""Where a gated model would stop looping: the exit shares of Ouro's gate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from harness.looped.errors import LoopedError
from harness.looped.model import LoopedLM
from harness.looped.names import GATE, GATE_BIAS


def exit_shares(model: LoopedLM, states: Sequence[Tensor]) -> Tensor:
    """The share that each loop takes, [R, B, T], from the states [B, T, n] after every loop.

    The states are those after the final norm, as each loop ends. p_t = g_t * (1 - g_1) * … *
    (1 - g_{t-1}) with the gate's sigmoid g; the last loop takes the rest. A model stops at the
    first loop whose running sum reaches its threshold. Raises LoopedError for a model without a
    gate. Source: Ouro's paper, arXiv 2510.25741.
    """
    if GATE not in model.tensors:
        raise LoopedError(
            f"exit_shares: found layout {model.config.layout}, expected one with a gate"
        )
    weight, bias = model.tensors[GATE], model.tensors[GATE_BIAS]
    left: Tensor | None = None
    shares = []
    for state in states[:-1]:
        gate = torch.sigmoid(functional.linear(state, weight, bias))[..., 0].double()
        shares.append(gate if left is None else gate * left)
        left = 1 - gate if left is None else left * (1 - gate)
    rest = states[-1].new_ones(states[-1].shape[:-1], dtype=torch.float64)
    return torch.stack([*shares, rest if left is None else left])
