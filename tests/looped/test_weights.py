"""Checkpoints are read strictly, and every refusal names file and tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.looped.config_files import config_json, read_config
from harness.looped.errors import ConfigError, LoopedError, WeightsError
from harness.looped.recipes import tiny_config
from harness.looped.training import initial_tensors
from harness.looped.weights import expected_shapes, load, save

GOLDEN = Path(__file__).parent / "golden"
QKV = "transformer.core_block.1.attn.Wqkv.weight"
Tensors = dict[str, Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "model"
    shutil.copytree(GOLDEN / "huginn_random", target)
    return target


def _rewrite(folder: Path, change: Callable[[Tensors], object]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)


def _set(name: str, value: Callable[[Tensor], Tensor]) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: value(tensors[name])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update({"transformer.extra": torch.ones(1)}), "transformer.extra: unknown"),
        (lambda t: t.pop(QKV), f"missing 1 tensors, the first is {QKV}"),
        (_set(QKV, lambda x: x[:-1]), r"Wqkv.weight: found shape \(191, 64\), expected \(192, 64"),
        (_set(QKV, lambda x: x.to(torch.int32)), "found torch.int32, expected a float type"),
        (_set("lm_head.weight", lambda x: x + 1), "lm_head.weight differs from transformer.wte"),
        (_set("freqs_cis", lambda x: x + 0.1), "freqs_cis: differs from rope_base 50000.0 by 0.1"),
        (_set("freqs_cis", lambda x: x[:, :9]), "freqs_cis: found shape"),
    ],
)
def test_wrong_tensors_are_refused(
    folder: Path, change: Callable[[Tensors], object], message: str
) -> None:
    _rewrite(folder, change)
    with pytest.raises(WeightsError, match=message):
        load(folder)


@pytest.mark.parametrize("name", ["freqs_cis", "lm_head.weight"])
def test_what_can_be_derived_may_be_absent(folder: Path, name: str) -> None:
    _rewrite(folder, lambda tensors: tensors.pop(name, None))
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(load(folder)(ids, loops=2), load(GOLDEN / "huginn_random")(ids, loops=2))


def test_shards_are_joined_and_doubles_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    names = sorted(tensors)
    save_file({n: tensors[n].clone() for n in names[:20]}, folder / "model-1.safetensors")
    save_file({n: tensors[n].clone() for n in names[20:]}, folder / "model-2.safetensors")
    path.unlink()
    assert set(load(folder).tensors) == set(expected_shapes(read_config(folder / "config.json")))
    save_file({names[0]: tensors[names[0]].clone()}, folder / "model-3.safetensors")
    with pytest.raises(WeightsError, match="found it in two files"):
        load(folder)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "llama", "model_type: found 'llama', expected 'huginn_raven'"),
        ("n_embd", "64", "n_embd: found '64', expected of type int"),
        ("head_dim", None, "head_dim: found None, expected of type int"),
        ("num_key_value_heads", 3, "num_key_value_heads: found 3, expected a divisor of 4"),
        ("init_values", {"std": 1.0}, "init_values.embed_scale: found None, expected a number"),
        ("rope_scaling", {"rope_type": "yarn"}, "rope_type: found 'yarn', expected 'llama3'"),
        ("injection_type", "add", "injection_type: found 'add'"),
    ],
)
def test_wrong_configs_are_refused(folder: Path, key: str, value: object, message: str) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(ConfigError, match=message):
        load(folder)


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="nowhere: no such model folder; shipped models"):
        load("nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match="found no model"):
        load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: not a readable config"):
        load(folder)


def test_own_models_survive_a_round_trip(tmp_path: Path) -> None:
    config = tiny_config(320)
    tensors = initial_tensors(config, 1)
    (tmp_path / "config.json").write_text(json.dumps(config_json(config)))
    save(tmp_path, tensors, torch.float32)
    model = load(tmp_path)
    assert model.config == config
    assert all(torch.equal(model.tensors[name], tensors[name]) for name in tensors)


def test_rows_beyond_the_rotary_table_are_refused(folder: Path) -> None:
    with pytest.raises(LoopedError, match="found 257 in a row, expected at most 256"):
        load(folder)(torch.zeros(1, 257, dtype=torch.int64))
