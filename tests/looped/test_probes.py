"""Probes: states and planes as they are, perturbations as asked, tables as written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
import torch

from harness.looped.errors import PolicyError
from harness.looped.policies import Policy, deepest, every_nth, full, per_head, ripe
from harness.looped.probes import perturbed, probe
from harness.looped.reference import reference_logits
from harness.looped.replaying import divergence, replay
from harness.looped.ripening import plane_distances
from harness.looped.streaming import stream_distances, stream_replay, stream_states
from tests.looped.models import CONFIGS, random_model

MODEL = random_model(CONFIGS["huginn_0125"], seed=2)
IDS = torch.tensor([[5, 9, 17, 3, 30, 12, 8, 1], [1, 0, 0, 2, 29, 4, 4, 7]])
KEYED: dict[str, Any] = {"start": "keyed", "seed": 2}


@pytest.mark.parametrize(
    "policy", [full(), deepest(), ripe(2), every_nth(2), per_head((0, 1, 2, 3))]
)
def test_a_probe_sees_what_the_reference_computes(policy: Policy) -> None:
    seen = probe(MODEL, IDS, policy=policy, loops=3, **KEYED)
    for row in range(2):
        expected = reference_logits(
            MODEL, IDS[row].tolist(), policy, passes=[1] * 8, loops=3, **KEYED
        )
        torch.testing.assert_close(seen.logits[row], expected, rtol=0, atol=1e-10)
    config = MODEL.config
    assert len(seen.states) == len(seen.planes) == config.prelude + 3 * config.core + config.coda
    assert {s.shape for s in seen.states.values()} == {(2, 8, config.n_embd)}
    assert {k.shape for k, _ in seen.planes.values()} == {(2, 8, 4, config.head_dim)}


def test_states_lead_from_one_to_the_next() -> None:
    """The adapter over a loop's last state and the prelude's output gives the next loop's first."""
    seen = probe(MODEL, IDS, loops=3)
    short = probe(MODEL, IDS, loops=2)
    for layer in range(4):
        assert torch.equal(seen.states["core", 2, layer], short.states["core", 2, layer])
    assert not torch.equal(seen.states["core", 2, 3], seen.states["core", 3, 3])


def test_a_perturbation_has_the_size_and_the_planes_asked_for() -> None:
    options: dict[str, Any] = {"prefix": 5, "noise_seed": 1, "loops": 4, **KEYED}
    none = perturbed(MODEL, IDS, planes=[1, 2, 3, 4], size=0.0, **options)
    assert none.shape == (2, 3)
    assert none.abs().max() < 1e-12
    small, large = (perturbed(MODEL, IDS, planes=[4], size=s, **options) for s in (0.01, 0.02))
    assert (small > 1e-12).all()
    # Small noise: the divergence grows with the square of its size.
    assert float((large / small).median()) == pytest.approx(4, rel=0.15)
    early = perturbed(MODEL, IDS, planes=[1], size=0.1, **options)
    late = perturbed(MODEL, IDS, planes=[4], size=0.1, **options)
    assert not torch.equal(early, late)
    again = perturbed(MODEL, IDS, planes=[4], size=0.1, **options)
    other = perturbed(MODEL, IDS, planes=[4], size=0.1, **{**options, "noise_seed": 2})
    assert torch.equal(late, again) and not torch.equal(late, other)


def test_planes_that_nobody_reads_do_not_matter() -> None:
    options: dict[str, Any] = {"prefix": 5, "size": 0.5, "noise_seed": 1, "loops": 4, **KEYED}
    assert perturbed(MODEL, IDS, planes=[1, 2, 3], policy=deepest(), **options).max() < 1e-12
    assert perturbed(MODEL, IDS, planes=[4], policy=deepest(), **options).min() > 1e-8
    near = perturbed(MODEL, IDS, planes=[1, 2, 3], policy=ripe(2), **options)
    assert near.max() > 1e-8


def test_bad_perturbations_are_refused() -> None:
    options: dict[str, Any] = {"size": 0.1, "noise_seed": 1, "loops": 4}
    with pytest.raises(PolicyError, match=r"planes: found \[0, 5\], expected some of 1..4"):
        perturbed(MODEL, IDS, planes=[0, 5], prefix=3, **options)
    with pytest.raises(PolicyError, match=r"prefix: found 8, expected 1\.\.7"):
        perturbed(MODEL, IDS, planes=[1], prefix=8, **options)


def test_the_divergence_is_in_nats_and_in_float64() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.5, 0.25])
    kl = divergence(p.log(), q.log())
    assert kl.dtype == torch.float64
    assert float(kl) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2), abs=1e-7)
    near = torch.randn(50, 40, generator=torch.Generator().manual_seed(1))
    assert divergence(near, near + 1e-6 * near.flip(0)).min() > -1e-15


def _parquet(path: Path, run: Any) -> Any:
    """Stream into one Parquet file, table by table, and read it back."""
    writers: list[pq.ParquetWriter] = []

    def column(values: np.ndarray[Any, Any]) -> Any:
        if values.ndim == 2:
            return pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
        return pa.array(values)

    def write(table: Mapping[str, np.ndarray[Any, Any]]) -> None:
        made = pa.table({name: column(values) for name, values in table.items()})
        if not writers:
            writers.append(pq.ParquetWriter(path, made.schema))
        writers[0].write_table(made)

    run(write)
    writers[0].close()
    return pq.read_table(path)


def test_replays_stream_into_parquet(tmp_path: Path) -> None:
    policies = [deepest(), ripe(2)]

    def run(write: Any) -> None:
        stream_replay(MODEL, IDS.tolist(), policies, write, loops=3, **KEYED)

    table = _parquet(tmp_path / "replay.parquet", run)
    assert table.num_rows == 2 * 2 * 8
    for policy in policies:
        expected = replay(MODEL, IDS, policy=policy, loops=3, **KEYED)
        part = table.filter(pa.compute.equal(table["policy"], policy.label))
        kl = part["kl"].to_numpy().reshape(2, 8)
        np.testing.assert_allclose(kl, expected.kl.numpy(), atol=1e-12)
        assert part["chosen"].to_numpy().tolist() == expected.chosen.flatten().tolist()
        assert part["position"].to_pylist() == [*range(8)] * 2


def test_states_stream_into_parquet(tmp_path: Path) -> None:
    tables: list[Any] = []
    stream_states(MODEL, IDS.tolist(), ripe(2), tables.append, loops=3, **KEYED)
    assert len(tables) == 2 * (2 + 3 * 4 + 2)
    seen = probe(MODEL, IDS[:1], policy=ripe(2), loops=3, **KEYED)
    for table in tables[:16]:
        key = str(table["kind"][0]), int(table["loop"][0]), int(table["layer"][0])
        np.testing.assert_array_equal(table["state"], seen.states[key][0].float().numpy())
        assert ("key" in table) == (key[0] == "core")
    core = [table for table in tables if "key" in table]

    def run(write: Any) -> None:
        for table in core:
            write(table)

    stored = _parquet(tmp_path / "states.parquet", run)
    assert stored.num_rows == 2 * 12 * 8
    assert stored.schema.field("state").type.list_size == MODEL.config.n_embd


def test_distances_stream_into_parquet(tmp_path: Path) -> None:
    table = _parquet(
        tmp_path / "distances.parquet",
        lambda write: stream_distances(MODEL, IDS.tolist(), write, loops=3, **KEYED),
    )
    expected = plane_distances(MODEL, IDS[:1], 3, **KEYED)
    first = table.filter(pa.compute.equal(table["text"], 0))
    np.testing.assert_allclose(first["distance"].to_numpy(), expected.flatten().numpy())
    assert first["loop"].to_pylist() == [1] * 8 + [2] * 8 + [3] * 8
