"""Statistics of paired A/B runs: pure functions on arrays, no I/O, nothing else of this project.

Three rules hold everywhere. Clusters are the unit of inference, so repeats, tokens and positions
inside one never add evidence. Bad data raise `AnalysisError` with one line; good data that cannot
answer give `NotEstimable` with a reason, never a NaN, a zero-width interval or p = 0. And nothing
is chosen from the data: method, level, region and family are arguments, frozen by whoever calls.
"""

from harness.analysis.bca import (
    BcaInterval,
    acceleration,
    bca_enumerated,
    jackknife,
    jackknife_error,
)
from harness.analysis.bootstrap import (
    Bootstrap,
    montecarlo_p,
    percentile_bootstrap,
    percentile_bootstraps,
    studentised_bootstrap,
)
from harness.analysis.calibration import Calibration, ForecastBin, brier
from harness.analysis.clustered_mcnemar import clustered_mcnemar
from harness.analysis.clusters import (
    Clusters,
    ClusterSums,
    ExactSums,
    cluster_key,
    cluster_sums,
    clusters_of,
)
from harness.analysis.coverage import CoverageCell, coverage_check
from harness.analysis.cr2 import cluster_se, cr2_interval, cr2_test
from harness.analysis.crossed import crossed_mean
from harness.analysis.enumeration import (
    all_resamples,
    distinct_resamples,
    enumerated_bootstrap,
    enumerated_error,
    single_cluster_probability,
    undefined_share,
)
from harness.analysis.equivalence import (
    Equivalence,
    equivalence,
    equivalence_region,
    non_inferiority_region,
    two_sided_level,
    with_control,
)
from harness.analysis.errors import AnalysisError, NotEstimable
from harness.analysis.estimands import accuracy_diff, log_ratio, mean_diff, ratio_of_sums
from harness.analysis.estimands_of_sums import (
    accuracy_diff_of_counts,
    log_ratio_of_means,
    mean_diff_of_sums,
    ratio_of_cluster_sums,
)
from harness.analysis.max_t import MaxT, max_t, max_t_intervals
from harness.analysis.mcnemar import mcnemar, mcnemar_rows, min_discordant, sign_evalue
from harness.analysis.methods import MethodPlan, beside, methods_for
from harness.analysis.model_check import Condition, ConditionCheck, ModelCheck, model_check
from harness.analysis.multiplicity import (
    SequenceStep,
    benjamini_hochberg,
    bonferroni_level,
    fixed_sequence,
    holm,
)
from harness.analysis.noise_floor import (
    Agreement,
    NoiseFloor,
    RepeatNoise,
    agreement,
    noise_floor,
    repeat_noise,
    variance_ratio,
)
from harness.analysis.order_diagnostics import (
    OrderDiagnostics,
    Regression,
    arm_and_drift,
    order_diagnostics,
)
from harness.analysis.orders import (
    ABBA,
    BAAB,
    abba_baab,
    carry_over_bias,
    order_bias,
    thue_morse,
    williams,
    williams_orders,
)
from harness.analysis.pairing import MissingBounds, Pairs, missing_bounds, pair_rows
from harness.analysis.pass_cost import PassCost, pass_cost
from harness.analysis.philox import philox_block, philox_words
from harness.analysis.power import (
    design_effect,
    detectable_effect,
    detectable_margin,
    mcnemar_power,
    mean_power,
    non_inferiority_sample_size,
    question_sample_size,
)
from harness.analysis.precision import percentile_ranks, round_twelve, twelve_digits
from harness.analysis.proportions import (
    bonett_price_interval,
    exact_interval,
    newcombe_interval,
    paired_design_effect,
    tango_effective,
    tango_interval,
    tango_test,
    wald_interval,
    wilson_interval,
)
from harness.analysis.quantile_estimands import quantile_diff, quantile_ratio
from harness.analysis.quantiles import quantile, weighted_quantile
from harness.analysis.resampled_quantiles import resampled_quantiles
from harness.analysis.resampling import bootstrap_counts, resampled_sums, resampling_key
from harness.analysis.results import Estimate, Interval, TestResult
from harness.analysis.settle import settled, until_settled
from harness.analysis.sign_flip import sign_flip, smallest_sign_flip_p
from harness.analysis.strata import stratified_interval
from harness.analysis.tail import (
    over_threshold,
    tail_ratio,
    tail_ratio_of_sums,
    tail_share,
    tail_share_of_sums,
)
from harness.analysis.verdicts import Region, Verdict, broken_preconditions, decide, reconcile

__all__ = [
    "ABBA",
    "BAAB",
    "Agreement",
    "AnalysisError",
    "BcaInterval",
    "Bootstrap",
    "Calibration",
    "ClusterSums",
    "Clusters",
    "Condition",
    "ConditionCheck",
    "CoverageCell",
    "Equivalence",
    "Estimate",
    "ExactSums",
    "ForecastBin",
    "Interval",
    "MaxT",
    "MethodPlan",
    "MissingBounds",
    "ModelCheck",
    "NoiseFloor",
    "NotEstimable",
    "OrderDiagnostics",
    "Pairs",
    "PassCost",
    "Region",
    "Regression",
    "RepeatNoise",
    "SequenceStep",
    "TestResult",
    "Verdict",
    "abba_baab",
    "acceleration",
    "accuracy_diff",
    "accuracy_diff_of_counts",
    "agreement",
    "all_resamples",
    "arm_and_drift",
    "bca_enumerated",
    "benjamini_hochberg",
    "beside",
    "bonett_price_interval",
    "bonferroni_level",
    "bootstrap_counts",
    "brier",
    "broken_preconditions",
    "carry_over_bias",
    "cluster_key",
    "cluster_se",
    "cluster_sums",
    "clustered_mcnemar",
    "clusters_of",
    "coverage_check",
    "cr2_interval",
    "cr2_test",
    "crossed_mean",
    "decide",
    "design_effect",
    "detectable_effect",
    "detectable_margin",
    "distinct_resamples",
    "enumerated_bootstrap",
    "enumerated_error",
    "equivalence",
    "equivalence_region",
    "exact_interval",
    "fixed_sequence",
    "holm",
    "jackknife",
    "jackknife_error",
    "log_ratio",
    "log_ratio_of_means",
    "max_t",
    "max_t_intervals",
    "mcnemar",
    "mcnemar_power",
    "mcnemar_rows",
    "mean_diff",
    "mean_diff_of_sums",
    "mean_power",
    "methods_for",
    "min_discordant",
    "missing_bounds",
    "model_check",
    "montecarlo_p",
    "newcombe_interval",
    "noise_floor",
    "non_inferiority_region",
    "non_inferiority_sample_size",
    "order_bias",
    "order_diagnostics",
    "over_threshold",
    "pair_rows",
    "paired_design_effect",
    "pass_cost",
    "percentile_bootstrap",
    "percentile_bootstraps",
    "percentile_ranks",
    "philox_block",
    "philox_words",
    "quantile",
    "quantile_diff",
    "quantile_ratio",
    "question_sample_size",
    "ratio_of_cluster_sums",
    "ratio_of_sums",
    "reconcile",
    "repeat_noise",
    "resampled_quantiles",
    "resampled_sums",
    "resampling_key",
    "round_twelve",
    "settled",
    "sign_evalue",
    "sign_flip",
    "single_cluster_probability",
    "smallest_sign_flip_p",
    "stratified_interval",
    "studentised_bootstrap",
    "tail_ratio",
    "tail_ratio_of_sums",
    "tail_share",
    "tail_share_of_sums",
    "tango_effective",
    "tango_interval",
    "tango_test",
    "thue_morse",
    "twelve_digits",
    "two_sided_level",
    "undefined_share",
    "until_settled",
    "variance_ratio",
    "wald_interval",
    "weighted_quantile",
    "williams",
    "williams_orders",
    "wilson_interval",
    "with_control",
]
