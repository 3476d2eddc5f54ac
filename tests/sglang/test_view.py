"""The folder that SGLang loads: a config it understands, and links to the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from harness.backends.sglang.models.settings import SettingsError, settings_from
from harness.backends.sglang.view import make_view
from harness.looped.saving import save_checkpoint
from harness.looped.weights import find
from tests.looped.models import CONFIGS, random_tensors


def view_of(name: str, folder: Path, **changes: object) -> dict[str, object]:
    given: dict[str, object] = {"loops": 4, "planes": "full", "dtype": "float32", **changes}
    make_view(find(name), folder, **given)  # type: ignore[arg-type]
    content: dict[str, object] = json.loads((folder / "config.json").read_text())
    return content


def test_the_embedded_model(tmp_path: Path) -> None:
    found = view_of("tiny_ripe", tmp_path / "view")
    assert found["architectures"] == ["RavenForCausalLM"]
    assert found["num_hidden_layers"] == 1 + 2 * 4 + 1
    assert (found["tie_word_embeddings"], found["dtype"]) == (True, "float32")
    assert found["eos_token_id"] is None
    assert settings_from(found["looped"]).config.layout == "huginn"
    link = tmp_path / "view" / "model.safetensors"
    assert link.is_symlink()
    assert link.resolve() == find("tiny_ripe") / "model.safetensors"


def test_shared_planes_need_one_cache_layer_for_each_core_layer(tmp_path: Path) -> None:
    found = view_of("tiny_ripe", tmp_path / "view", planes="shared", loops=32)
    assert found["num_hidden_layers"] == 4


def test_every_shard_and_the_index_are_linked(tmp_path: Path) -> None:
    config = CONFIGS["raven_llama_1b"]
    source = tmp_path / "source"
    paths = save_checkpoint(
        source, config, random_tensors(config), dtype=torch.float32, shard_bytes=20_000
    )
    (source / "model-stray.safetensors").write_bytes(b"not named by the index")
    make_view(source, tmp_path / "view", loops=2, planes="shared", dtype="bfloat16")
    linked = {path.name for path in (tmp_path / "view").iterdir()}
    assert len(paths) > 2
    names = {path.name for path in paths}
    assert linked == names | {"config.json", "model.safetensors.index.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"planes": "some"}, "planes: found 'some'"),
        ({"loops": 0}, "loops: found 0"),
        ({"dtype": "int8"}, "dtype: found 'int8'"),
        ({"start": "random"}, "start: found 'random'"),
    ],
)
def test_bad_requests_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        view_of("tiny_ripe", tmp_path / "view", **changes)


@pytest.mark.parametrize("name", ["ouro_1_4b", "raven_olmo"])
def test_layouts_without_a_model_class_are_refused(tmp_path: Path, name: str) -> None:
    config = CONFIGS[name]
    save_checkpoint(tmp_path / "source", config, random_tensors(config))
    with pytest.raises(SettingsError, match=f"layout: found '{config.layout}'"):
        make_view(tmp_path / "source", tmp_path / "view", loops=2, planes="full", dtype="float32")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text((find("tiny_ripe") / "config.json").read_text())
    with pytest.raises(SettingsError, match=r"found no model\*\.safetensors"):
        make_view(source, tmp_path / "view", loops=2, planes="full", dtype="float32")


def test_a_view_is_not_overwritten(tmp_path: Path) -> None:
    view_of("tiny_ripe", tmp_path / "view")
    with pytest.raises(FileExistsError):
        view_of("tiny_ripe", tmp_path / "view")
