"""The start state of the loop: zero, or noise that depends only on seed, position and channel.

The noise comes from integer arithmetic, so the same token gets the same state in one long pass, in
many short ones, in a draft, in any batch row and on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.looped.errors import LoopedError

ZERO = "zero"
KEYED = "keyed"

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB
_LOW_16 = 0xFFFF
# Four fields of 16 bits: the sum has mean 2 * 65535 and variance 4 * (65536**2 - 1) / 12.
_SUM_MEAN = 2 * _LOW_16
_SUM_STD = ((65536**2 - 1) / 3) ** 0.5


def _mix(x: Tensor) -> Tensor:
    """The splitmix64 finaliser on int64 tensors, with wrap-around."""
    x = (x ^ _shift(x, 30)) * _MIX_1
    x = (x ^ _shift(x, 27)) * _MIX_2
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch shifts signed numbers arithmetically."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def keyed_sums(seed: int, positions: Tensor, width: int) -> Tensor:
    """Integers in [-131070, 131070], close to normal with standard deviation 37837.

    positions: int64 [...]; result: int64 [..., width]. One 64-bit word per (seed, position,
    channel); the sum of its four 16-bit fields, centred.
    """
    check_seed(seed)
    channels = torch.arange(width, dtype=torch.int64, device=positions.device)
    key = _mix(torch.tensor(seed, dtype=torch.int64, device=positions.device) + _GOLDEN)
    row = _mix(key ^ ((positions.to(torch.int64) + 1) * _GOLDEN))
    word = _mix(row.unsqueeze(-1) + (channels + 1) * _GOLDEN)
    fields = [(word >> shift) & _LOW_16 for shift in (0, 16, 32, 48)]
    return fields[0] + fields[1] + fields[2] + fields[3] - _SUM_MEAN


def keyed_state(seed: int, positions: Tensor, width: int, std: float) -> Tensor:
    """float32 noise [..., width] with standard deviation `std`, cut at 3.46 std by construction."""
    scale = torch.tensor(std / _SUM_STD, dtype=torch.float32, device=positions.device)
    return keyed_sums(seed, positions, width).to(torch.float32) * scale


def check_seed(seed: int) -> None:
    """Raise LoopedError unless a seed fits in 63 bits."""
    if not 0 <= seed < 2**63:
        raise LoopedError(f"start seed: found {seed}, expected 0 <= seed < 2**63")


def start_state(
    kind: str, seed: int, positions: Tensor, width: int, std: float, dtype: torch.dtype
) -> Tensor:
    """The state before loop 1, [..., width], for tokens at absolute `positions`."""
    if kind == ZERO:
        return torch.zeros(*positions.shape, width, dtype=dtype, device=positions.device)
    if kind == KEYED:
        return keyed_state(seed, positions, width, std).to(dtype)
    raise LoopedError(f"start: found '{kind}', expected '{ZERO}' or '{KEYED}'")


def keyed_uniform(seeds: Tensor, positions: Tensor, purpose: int) -> Tensor:
    """float64 numbers in [0, 1), one for each seed and position, which broadcast.

    Each purpose has its own. seeds and positions are int64, the seeds from 0 to 2**63 - 1.
    """
    key = _mix(seeds - _GOLDEN)
    row = _mix(key ^ ((positions.to(torch.int64) + 1) * _GOLDEN))
    word = _mix(row + torch.tensor(purpose + 1, device=positions.device) * _MIX_1)
    return _shift(word, 11).double() * 2.0**-53
