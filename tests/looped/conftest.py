"""Small random models in the published layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.looped.model import LoopedLM
from harness.looped.weights import load

GOLDEN = Path(__file__).parent / "golden"
LAYOUTS = ("huginn_random", "raven_llama_random")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def huginn() -> LoopedLM:
    """Huginn layout 2/4/2, n 64, in float64."""
    return load(GOLDEN / "huginn_random", dtype=torch.float64)


@pytest.fixture(scope="session", params=LAYOUTS)
def any_model(request: pytest.FixtureRequest) -> LoopedLM:
    """Each layout in turn, in float64."""
    return load(GOLDEN / request.param, dtype=torch.float64)
