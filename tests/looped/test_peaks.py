"""Predicted peaks against what the allocator really handed out."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.looped.decode import generate
from harness.looped.generation import EXACT, FULL_PROMPT, Decode, Sequential, Speculative
from harness.looped.peaks import measured_peak
from harness.looped.planner import peak_bytes
from harness.looped.policies import Policy, full, ripe, sinks_ripe
from tests.looped.models import CONFIGS, random_model

CPU = torch.device("cpu")
SIZES = {
    "n_embd": 64, "n_heads": 4, "head_dim": 16, "intermediate": 192, "block_size": 1024,
    "vocab": 512, "loops": 6,
}  # fmt: skip


def test_the_meter_counts_what_lives_at_once() -> None:
    def run() -> None:
        a = torch.zeros(1000, dtype=torch.float32)
        b = torch.zeros(3000, dtype=torch.float32)
        del a
        _ = b + 1

    # A few bytes of scalars come on top.
    assert 24_000 <= measured_peak(run, CPU) <= 24_064


def ratio(
    name: str, dtype: torch.dtype, policy: Policy, prefill: str, decode: Decode, length: int
) -> float:
    """Measured over predicted, of everything beside the weights."""
    groups = CONFIGS[name].n_kv_heads
    config = replace(CONFIGS[name], **SIZES, n_kv_heads=groups)
    model = random_model(config, dtype=dtype)
    prompts = [[i % 500 for i in range(length - 9 * row)] for row in range(3)]
    measured = measured_peak(
        lambda: generate(
            model, prompts, policy=policy, prefill=prefill, decode=decode, max_tokens=8
        ),
        CPU,
    )
    predicted = peak_bytes(
        config,
        policy,
        prompts=[len(p) for p in prompts],
        max_tokens=8,
        prefill=prefill,
        decode=decode,
        element_bytes=dtype.itemsize,
    )
    return measured / predicted


def apart(*case: Any) -> float:
    """The ratio, measured in a process of its own: the profiler never gives its gigabytes back."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return float(pool.apply(ratio, case))


CASES = [
    ("huginn_0125", torch.float32, ripe(16), FULL_PROMPT, Speculative(2, 4)),
    ("raven_llama_1b", torch.float32, full(), EXACT, Sequential()),
    ("raven_llama_1b", torch.bfloat16, ripe(16), FULL_PROMPT, Sequential()),
    ("ouro_1_4b", torch.float32, sinks_ripe(4, 16), EXACT, Speculative(2, 4)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2].label}-{c[3]}")
def test_peaks_are_as_predicted(
    case: tuple[str, torch.dtype, Policy, str, Decode], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ratio(*case, 120) == pytest.approx(1, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["huginn_0125", "raven_llama_1b", "raven_olmo", "ouro_1_4b"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("prefill", [EXACT, FULL_PROMPT])
def test_peaks_are_as_predicted_everywhere(
    name: str, dtype: torch.dtype, prefill: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = {
        (policy.label, decode): apart(name, dtype, policy, prefill, decode, 400)
        for policy in (full(), ripe(16))
        for decode in (Sequential(), Speculative(2, 4))
    }
    with capfd.disabled():
        print(f"\n{name} {dtype} {prefill}: {[round(r, 3) for r in found.values()]}")
    assert all(0.92 < r < 1.08 for r in found.values()), found
