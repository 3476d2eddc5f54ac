"""Plane distances and the fit of the ripening rate."""

from __future__ import annotations

import pytest
import torch

from harness.looped.errors import LoopedError
from harness.looped.model import LoopedLM
from harness.looped.ripening import fit_ripening, fit_whole, plane_distances


def test_the_rate_of_an_exact_decay_is_found() -> None:
    loops = torch.arange(1, 33, dtype=torch.float64).unsqueeze(1)
    fit = fit_ripening(0.4 * 0.6**loops * torch.ones(1, 9))
    assert fit.rho == pytest.approx(0.6)
    assert fit.scale == pytest.approx(0.4)
    assert fit.first == 4
    assert fit.medians[fit.last - 1] > 2e-6 > 0.4 * 0.6 ** (fit.last + 1)


def test_too_few_loops_are_refused() -> None:
    with pytest.raises(LoopedError, match=r"found 1 loops above 0\.1 from loop 4"):
        fit_ripening(0.5 ** torch.arange(0, 8.0).unsqueeze(1), floor=0.1)


def test_distances_shrink_for_a_settling_model(huginn: LoopedLM) -> None:
    ids = torch.tensor([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])
    distances = plane_distances(huginn, ids, 12)
    assert distances.shape == (12, 10)
    assert (distances[-1] < distances[0]).all()


def test_a_slow_loop_is_fitted_over_the_usual_range() -> None:
    loops = torch.arange(1, 33, dtype=torch.float64).unsqueeze(1)
    transient = 0.4 * 0.9**loops + 0.5 * 0.3**loops
    fit = fit_whole(transient * torch.ones(1, 9))
    assert (fit.first, fit.last) == (8, 31)
    assert fit.rho == pytest.approx(0.9, abs=1e-3)


def test_a_fast_loop_is_fitted_down_to_the_floor() -> None:
    loops = torch.arange(1, 33, dtype=torch.float64).unsqueeze(1)
    distances = 0.4 * 0.5**loops * torch.ones(1, 9)
    assert fit_whole(distances) == fit_ripening(distances)
    assert fit_whole(distances[:6]) == fit_ripening(distances[:6])
