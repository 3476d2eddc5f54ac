"""Verdicts, families and controls: what is decided, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness import analysis as st


def interval(low: float, high: float, estimate: float | None = None) -> st.Interval:
    middle = (low + high) / 2 if estimate is None else estimate
    return st.Interval(middle, low, high, 0.95, "cr2", 9.0, 10)


def test_rounding_noise_decides_nothing() -> None:
    region = st.Region(0.3, None)
    assert st.decide(interval(0.1 + 0.2 - 1e-15, 0.5), region).word == "held"
    assert st.decide(interval(0.3 - 1e-9, 0.5), region).word == "inconclusive"
    open_region = st.Region(0.3, None, low_closed=False)
    assert st.decide(interval(0.1 + 0.2, 0.5), open_region).word == "inconclusive"


def test_open_ends_of_an_interval_are_no_obstacle_in_the_open_direction() -> None:
    assert st.decide(interval(1.6, math.inf, 2.0), st.Region(1.5, None)).word == "held"
    assert st.decide(interval(-math.inf, 1.4, 1.0), st.Region(1.5, None)).word == "failed"
    assert st.decide(interval(1.6, math.inf, 2.0), st.Region(1.5, 3)).word == "inconclusive"
    verdict = st.decide(interval(-math.inf, math.inf, 2.0), st.Region(1.5, None), "point")
    assert (verdict.word, verdict.by_interval) == ("held", "inconclusive")
    assert verdict.sentence == "held: 2 [-inf, inf]"


@pytest.mark.parametrize(
    ("low", "high", "closed"),
    [(None, None, True), (2, 1, True), (1, 1, False), (math.nan, 1, True), (math.inf, None, True)],
)
def test_regions_that_can_decide_nothing_are_refused(
    low: float | None, high: float | None, closed: bool
) -> None:
    with pytest.raises(st.AnalysisError):
        st.Region(low, high, closed, closed)


def test_a_broken_precondition_voids_before_the_estimate_counts() -> None:
    reasons = st.broken_preconditions(
        clusters=7, min_clusters=8, pairs=70, min_pairs=80, missing_share=0.06,
        max_missing_share=0.05, void_share=0.2,
    )  # fmt: skip
    assert len(reasons) == 4
    verdict = st.decide(interval(1.6, 2.0), st.Region(1.5, None), broken=reasons)
    assert verdict.word == verdict.by_interval == verdict.by_point == "void"
    assert verdict.sentence.startswith("void: 7 clusters, needs 8; 70 pairs")
    assert st.broken_preconditions(clusters=8, min_clusters=8) == ()
    assert st.broken_preconditions(clusters=8, min_clusters=8, missing_share=math.nan)


def test_what_is_not_estimable_is_void_with_its_reason() -> None:
    verdict = st.decide(st.NotEstimable("no pairs"), st.Region(1, None))
    assert (verdict.word, verdict.estimate) == ("void", None)
    assert verdict.sentence == "void: not estimable: no pairs"


def test_a_degenerate_interval_decides_no_equivalence_but_may_decide_a_speedup() -> None:
    flat = interval(2.0, 2.0)
    assert st.decide(flat, st.Region(1.9, 2.1)).word == "void"
    assert st.decide(flat, st.Region(1.5, None), no_effect=1.0).word == "held"
    assert (
        st.decide(interval(0.0, 0.0), st.non_inferiority_region(0.01), no_effect=0.0).word == "void"
    )


def test_voided_blocks_that_would_change_the_verdict_make_it_inconclusive() -> None:
    region = st.Region(1.5, None)
    held, failed = st.decide(interval(1.6, 2), region), st.decide(interval(1, 1.2), region)
    void = st.decide(st.NotEstimable("x"), region)
    assert st.reconcile(held, held) is held
    assert st.reconcile(held, failed).word == "inconclusive"
    assert st.reconcile(void, held) is void
    assert "with the voided blocks" in st.reconcile(held, void).reasons[0]


def test_a_passing_control_makes_the_quality_test_blind() -> None:
    region = st.non_inferiority_region(0.02)
    held = st.decide(interval(-0.01, 0.01), region)
    failed = st.decide(interval(-0.2, -0.1), region)
    assert st.with_control(held, failed) is held
    blind = st.with_control(held, held)
    assert blind.word == "void"
    assert "must fail" in blind.sentence


def test_a_margin_is_needed_and_must_allow_something() -> None:
    for margin in (0, -0.1, math.nan):
        with pytest.raises(st.AnalysisError):
            st.equivalence_region(margin)
        with pytest.raises(st.AnalysisError):
            st.non_inferiority_region(margin)
    assert st.two_sided_level("0.025") == "0.950"


def test_equivalence_tests_agree_with_their_interval() -> None:
    generator = np.random.Generator(np.random.Philox(1))
    words = set()
    for shift in np.linspace(-0.08, 0.08, 60):
        differences = shift + 0.05 * generator.normal(size=12)
        found = st.equivalence(differences, np.ones(12), st.equivalence_region(0.05))
        assert isinstance(found, st.Equivalence)
        assert (found.p < 0.05) == (found.verdict.word == "held")
        words.add(found.verdict.word)
    assert words == {"held", "failed", "inconclusive"}
    flat = st.equivalence(np.zeros(12), np.ones(12), st.equivalence_region(0.05))
    assert isinstance(flat, st.NotEstimable)


def test_non_inferiority_has_one_test() -> None:
    found = st.equivalence(
        [0.01, 0.0, 0.02, -0.01], np.ones(4), st.non_inferiority_region(0.05), alpha="0.025"
    )
    assert isinstance(found, st.Equivalence)
    assert found.p_upper is None
    assert found.p == found.p_lower
    assert found.interval.confidence == 0.95


def test_a_fixed_sequence_stops_claiming_at_the_first_that_did_not_hold() -> None:
    steps = st.fixed_sequence(["held", "inconclusive", "held"])
    assert [step.tested for step in steps] == [True, True, False]


def test_bonferroni_levels_are_exact_decimals() -> None:
    assert st.bonferroni_level("0.95", 5) == "0.99"
    assert st.bonferroni_level(0.95, 1) == "0.95"
    with pytest.raises(st.AnalysisError):
        st.bonferroni_level("0.95", 0)
    third = st.cr2_interval([1, 2, 3], [1, 1, 1], confidence=st.bonferroni_level("0.95", 3))
    assert isinstance(third, st.Interval)
    assert third.confidence == pytest.approx(1 - 0.05 / 3)


def test_methods_follow_the_planned_clusters() -> None:
    assert st.methods_for(1).intervals == ()
    assert st.methods_for(5).test is None
    assert "percentile" not in st.methods_for(49).intervals
    assert st.methods_for(50).intervals == ("cr2", "percentile")


def test_max_t_by_draws_approaches_enumeration_and_is_needed_for_many_clusters() -> None:
    generator = np.random.Generator(np.random.Philox(6))
    differences = generator.normal(0.3, 1, (16, 3))
    exact = st.max_t(differences)
    assert isinstance(exact, st.MaxT)
    more = np.concatenate([differences, np.zeros((8, 3))])
    with pytest.raises(st.AnalysisError, match="key"):
        st.max_t(more)
    drawn = st.max_t(more, key=bytes(16), resamples=9_999)
    assert isinstance(drawn, st.MaxT)
    assert drawn.adjusted == pytest.approx(exact.adjusted, abs=0.02)
    assert all(a >= p for a, p in zip(exact.adjusted, exact.p, strict=True))
    silent = st.max_t(np.zeros((8, 2)))
    assert isinstance(silent, st.MaxT)
    assert silent.adjusted == (1.0, 1.0)


def test_max_t_intervals_hold_together() -> None:
    generator = np.random.Generator(np.random.Philox(8))
    covered = 0
    for _ in range(120):
        common = generator.normal(size=(40, 1))
        metrics = common + generator.normal(size=(40, 4))
        found = st.max_t_intervals(metrics, np.ones((40, 4)), key=bytes(16), resamples=499)
        assert not isinstance(found, st.NotEstimable)
        covered += all(one.low <= 0 <= one.high for one in found)
    assert covered / 120 >= 0.88
    single = st.cr2_interval(metrics[:, 0], np.ones(40))
    assert isinstance(single, st.Interval)
    assert found[0].high - found[0].low > single.high - single.low
    assert isinstance(
        st.max_t_intervals(np.ones((8, 2)), np.ones((8, 2)), key=bytes(16)), st.NotEstimable
    )


def test_draws_are_doubled_only_while_noise_could_decide() -> None:
    asked: list[int] = []

    def bootstrap(resamples: int) -> st.Bootstrap:
        asked.append(resamples)
        error = 0.1 / math.sqrt(resamples + 1)
        return st.Bootstrap(interval(1.004, 1.2), resamples, 0.0, error, error)

    far = st.until_settled(bootstrap, st.Region(1.1, None))
    assert asked == [9_999]
    near = st.until_settled(bootstrap, st.Region(1.003, None))
    assert asked[1:] == [9_999, 19_999, 39_999, 79_999, 159_999]
    assert isinstance(far, st.Bootstrap)
    assert isinstance(near, st.Bootstrap)
    assert st.settled(near, st.Region(1.003, None))
    refused = st.until_settled(lambda _: st.NotEstimable("x"), st.Region(1, None))
    assert isinstance(refused, st.NotEstimable)


def test_a_longer_bootstrap_continues_the_same_stream() -> None:
    sums = np.random.Generator(np.random.Philox(2)).normal(1.0, 0.2, 60)

    def bootstrap(resamples: int) -> st.Bootstrap | st.NotEstimable:
        return st.percentile_bootstrap(sums, np.ones(60), key=bytes(16), resamples=resamples)

    first, longer = bootstrap(9_999), bootstrap(39_999)
    assert isinstance(first, st.Bootstrap)
    assert isinstance(longer, st.Bootstrap)
    assert first.low_error is not None
    assert longer.low_error is not None
    assert longer.low_error < 0.7 * first.low_error
    assert abs(first.interval.low - longer.interval.low) < 4 * first.low_error


def test_many_metrics_at_once_equal_each_alone() -> None:
    generator = np.random.Generator(np.random.Philox(4))
    sums, sizes = generator.lognormal(0, 1, (30, 5)), generator.integers(1, 9, 30)
    together = st.percentile_bootstraps(sums, sizes, key=bytes(16), resamples=999)
    for metric in range(5):
        alone = st.percentile_bootstrap(sums[:, metric], sizes, key=bytes(16), resamples=999)
        assert alone == together[metric]
