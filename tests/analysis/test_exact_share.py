"""The exact binomial interval: scipy's, its closed forms at the edges, and its coverage."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from harness import analysis as st


@pytest.mark.parametrize("level", ["0.9", "0.95", "0.999"])
@pytest.mark.parametrize(
    ("k", "n"), [(0, 1), (1, 1), (0, 50), (3, 50), (49, 50), (50, 50), (7, 400)]
)
def test_it_is_the_interval_of_clopper_and_pearson(k: int, n: int, level: str) -> None:
    found = st.exact_interval(k, n, level)
    assert isinstance(found, st.Interval)
    wanted = binomtest(k, n).proportion_ci(float(level), "exact")
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-9, abs=1e-12)
    assert (found.estimate, found.method, found.clusters) == (k / n, "exact", n)


def test_where_nothing_was_seen_the_bound_has_a_closed_form() -> None:
    for n in (1, 50, 400):
        found = st.exact_interval(0, n, "0.9")
        assert isinstance(found, st.Interval)
        assert found.low == 0.0
        assert found.high == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-12)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.93])
def test_it_covers_at_least_at_its_level(share: float) -> None:
    covered = 0.0
    for k in range(41):
        found = st.exact_interval(k, 40, "0.95")
        assert isinstance(found, st.Interval)
        if found.low <= share <= found.high:
            covered += float(binom.pmf(k, 40, share))
    assert covered >= 0.95


def test_a_share_of_nothing_is_not_estimable_and_more_than_all_is_refused() -> None:
    assert isinstance(st.exact_interval(0, 0), st.NotEstimable)
    with pytest.raises(st.AnalysisError, match="more than all"):
        st.exact_interval(3, 2)
