"""The same bits for any chunking, worker count, row order, BLAS kernel and thread count."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from harness import analysis as st
from harness.analysis.exact import slices
from harness.analysis.philox import philox_words
from harness.analysis.resampling import BLOCK, block_counts, raw_words

KEY = st.resampling_key("00" * 32, "bits")
CLUSTERS, METRICS, RESAMPLES = 61, 5, 1_111

HASHES = """
import hashlib, numpy as np
from harness import analysis as st
key = st.resampling_key("00" * 32, "bits")
g = np.random.Generator(np.random.Philox(3))
labels = g.integers(0, 61, 20_000)
order = np.random.Generator(np.random.Philox(4)).permutation(20_000)
order = order if {shuffle} else np.arange(20_000)
for values in (g.integers(1, 10**9, (20_000, 5)), g.lognormal(0, 3, (20_000, 5))):
    sums = st.cluster_sums(labels[order], values[order]).sums
    draws = st.resampled_sums(key, sums, 1_111)
    print(hashlib.sha256(sums.tobytes() + draws.tobytes()).hexdigest())
"""


def hashes(shuffle: bool = False, **environment: str) -> list[str]:
    code = HASHES.format(shuffle=shuffle)
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


def test_threads_kernels_and_row_order_change_no_bit() -> None:
    runs = [
        hashes(OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE="Haswell"),
        hashes(OPENBLAS_NUM_THREADS="2", OPENBLAS_CORETYPE="Katmai"),
        hashes(shuffle=True, OPENBLAS_NUM_THREADS="2", OPENBLAS_CORETYPE="SkylakeX"),
    ]
    assert len(runs[0]) == 2
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_in_any_order_draws_the_same_counts(workers: int) -> None:
    blocks = list(range(-(-RESAMPLES // BLOCK)))[::-1]
    with ThreadPoolExecutor(workers) as pool:
        drawn = dict(
            zip(blocks, pool.map(lambda b: block_counts(KEY, b, CLUSTERS), blocks), strict=True)
        )
    joined = np.concatenate([drawn[block] for block in sorted(blocks)])[:RESAMPLES]
    assert np.array_equal(joined, st.bootstrap_counts(KEY, CLUSTERS, RESAMPLES))


def test_a_shorter_run_is_a_prefix_of_a_longer_one() -> None:
    long = st.bootstrap_counts(KEY, CLUSTERS, 3_000)
    for length in (1, 255, 256, 257, 2_999):
        assert np.array_equal(st.bootstrap_counts(KEY, CLUSTERS, length), long[:length])


def test_metrics_share_their_resamples_and_do_not_disturb_each_other() -> None:
    table = np.random.Generator(np.random.Philox(4)).lognormal(0, 2, (CLUSTERS, METRICS))
    together = st.resampled_sums(KEY, table, RESAMPLES)
    counts = st.bootstrap_counts(KEY, CLUSTERS, RESAMPLES).astype(float)
    for metric in range(METRICS):
        alone = st.resampled_sums(KEY, table[:, [metric]], RESAMPLES)[:, 0]
        assert np.array_equal(alone, together[:, metric])
    assert np.allclose(counts @ table, together, rtol=1e-13)


def test_the_bit_stream_is_the_one_that_plain_python_computes() -> None:
    key = int.from_bytes(KEY, "little")
    for block in (0, 1, 39):
        words = [int(word) for word in raw_words(KEY, block, 12)]
        assert words == philox_words(key, block << 64, 12)


def test_the_key_is_a_hash_of_the_preregistration_and_the_analysis() -> None:
    digest = hashlib.sha256(b"boot-v1\0" + b"00" * 32 + b"\0" + b"bits").digest()
    assert digest[:16] == KEY
    assert st.resampling_key("00" * 32, "other") != KEY
    with pytest.raises(st.AnalysisError, match="16 bytes"):
        st.bootstrap_counts(b"short", 3, 10)


def test_every_cluster_is_drawn_about_equally_often() -> None:
    counts = st.bootstrap_counts(KEY, 10, 20_000).sum(axis=0)
    assert np.all(np.abs(counts - 20_000) < 5 * np.sqrt(20_000))


def test_slices_add_up_and_each_adds_exactly() -> None:
    values = np.random.Generator(np.random.Philox(9)).lognormal(0, 8, (4_096, 1))
    parts = slices(values, len(values), parts=3)
    assert 2 <= len(parts) <= 3
    assert np.allclose(sum(parts), values, rtol=1e-12)
    for part in parts:
        column = part[:, 0]
        forward = float(np.add.accumulate(column)[-1])
        assert forward == float(np.add.accumulate(column[::-1])[-1]) == float(column.sum())


def test_columns_of_any_scale_keep_their_digits() -> None:
    generator = np.random.Generator(np.random.Philox(10))
    table = generator.normal(size=(500, 4)) * [1e-200, 1.0, 1e100, 0.0]
    labels = np.arange(500) % 7
    sums = st.cluster_sums(labels, table).sums
    for cluster in range(7):
        for column in range(4):
            expected = math.fsum(table[labels == cluster, column])
            assert sums[cluster, column] == pytest.approx(expected, rel=1e-15, abs=0)


def test_whole_numbers_stay_whole_up_to_the_exact_limit() -> None:
    nanoseconds = np.array([[2**40 + 1, 3], [2**41 + 1, 5]], dtype=np.int64)
    sums = st.cluster_sums([7, 7], nanoseconds).sums
    assert sums.tolist() == [[float(2**40 + 2**41 + 2), 8.0]]
