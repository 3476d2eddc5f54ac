"""The start state depends on seed, position and channel, and on nothing else."""

from __future__ import annotations

import pytest
import torch

from harness.looped.errors import LoopedError
from harness.looped.start import keyed_state, keyed_sums, start_state

MASK = (1 << 64) - 1
# Start states are part of frozen runs: these numbers must never change.
FROZEN = [88788, -20961, -3519, 55191]
GOLDEN = 0x9E3779B97F4A7C15


def _mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def _sum(seed: int, position: int, channel: int) -> int:
    """The same rule in plain integers."""
    row = _mix(_mix(seed + GOLDEN & MASK) ^ ((position + 1) * GOLDEN & MASK))
    word = _mix(row + (channel + 1) * GOLDEN & MASK)
    return sum(word >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 2 * 0xFFFF


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_integers_follow_the_written_rule(seed: int) -> None:
    found = keyed_sums(seed, torch.tensor([0, 5, 4095]), 6)
    expected = [[_sum(seed, p, c) for c in range(6)] for p in (0, 5, 4095)]
    assert found.tolist() == expected


def test_integers_are_frozen() -> None:
    assert keyed_sums(0, torch.tensor([0]), 3).tolist() == [[_sum(0, 0, c) for c in range(3)]]
    assert keyed_sums(1, torch.tensor([2]), 4).tolist() == [FROZEN]


def test_a_token_gets_the_same_state_in_any_call() -> None:
    long = keyed_state(3, torch.arange(50), 16, 0.6)
    assert torch.equal(long[17], keyed_state(3, torch.tensor([17]), 16, 0.6)[0])
    assert torch.equal(long[[4, 9]], keyed_state(3, torch.tensor([4, 9]), 16, 0.6))
    assert not torch.equal(long, keyed_state(4, torch.arange(50), 16, 0.6))


def test_noise_is_close_to_normal() -> None:
    noise = keyed_state(1, torch.arange(2000), 128, 0.6325).double()
    assert float(noise.mean()) == pytest.approx(0, abs=0.005)
    assert float(noise.std()) == pytest.approx(0.6325, rel=0.005)
    assert float((noise.abs() > 2 * 0.6325).double().mean()) == pytest.approx(0.0455, abs=0.006)
    neighbours = (noise[1:] * noise[:-1]).mean() / noise.var()
    assert abs(float(neighbours)) < 0.01


def test_kinds() -> None:
    positions = torch.arange(4).unsqueeze(0)
    zero = start_state("zero", 0, positions, 8, 0.6, torch.float64)
    assert zero.shape == (1, 4, 8) and not zero.any()
    assert start_state("keyed", 0, positions, 8, 0.6, torch.bfloat16).dtype == torch.bfloat16
    with pytest.raises(LoopedError, match="start: found 'noise'"):
        start_state("noise", 0, positions, 8, 0.6, torch.float32)
    with pytest.raises(LoopedError, match="start seed: found -1"):
        start_state("keyed", -1, positions, 8, 0.6, torch.float32)
