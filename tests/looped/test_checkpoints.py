"""Every published layout: its parameter count, its names on disk, and its forward pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from harness.looped import PUBLISHED, exit_shares, load, outline, parameters, save_checkpoint
from harness.looped.config import RAVEN_OLMO
from harness.looped.errors import ConfigError, LoopedError, WeightsError
from harness.looped.probes import probe
from tests.looped.models import CONFIGS, random_model, random_tensors

COUNTS = {
    "huginn_0125": 3_564_976_800,
    "raven_llama_1b": 1_385_228_288,
    "raven_llama_2_4_2": 1_020_299_264,
    "raven_tinyllama": 844_171_264,
    "raven_olmo": 1_359_071_232,
    "ouro_1_4b": 1_434_652_673,
    "ouro_2_6b": 2_667_974_657,
}
IDS = torch.tensor([[5, 9, 17, 3, 30, 12, 8], [1, 0, 0, 2, 29, 4, 4]])


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    model = outline(PUBLISHED[name])
    assert {t.device.type for t in model.tensors.values()} == {"meta"}
    assert parameters(model) == COUNTS[name]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shard_bytes", [None, 6000])
def test_a_written_checkpoint_reads_back(
    tmp_path: Path, name: str, shard_bytes: int | None
) -> None:
    config, tensors = CONFIGS[name], random_tensors(CONFIGS[name])
    files = save_checkpoint(
        tmp_path, config, tensors, dtype=torch.float32, shard_bytes=shard_bytes, complete=True
    )
    assert (len(files) > 1) == (shard_bytes is not None)
    model = load(tmp_path)
    assert model.config == config
    assert set(model.tensors) == set(tensors)
    assert all(torch.equal(model.tensors[n], tensors[n].float()) for n in tensors)
    expected = random_model(config, dtype=torch.float32)(IDS)
    assert torch.equal(model(IDS), expected)


@pytest.mark.parametrize("name", CONFIGS)
def test_shards_are_cast_one_by_one(tmp_path: Path, name: str) -> None:
    """bf16 shards in a float64 model, and fp32 shards in a bf16 one."""
    config, tensors = CONFIGS[name], random_tensors(CONFIGS[name])
    for stored, wanted in ((torch.bfloat16, torch.float64), (torch.float32, torch.bfloat16)):
        save_checkpoint(tmp_path, config, tensors, dtype=stored, shard_bytes=8000, complete=True)
        model = load(tmp_path, dtype=wanted)
        assert {t.dtype for t in model.tensors.values()} == {wanted}
        assert all(torch.equal(model.tensors[n], tensors[n].to(stored).to(wanted)) for n in tensors)


def test_ouro_is_written_under_its_own_names(tmp_path: Path) -> None:
    config, tensors = CONFIGS["ouro_1_4b"], random_tensors(CONFIGS["ouro_1_4b"])
    (path,) = save_checkpoint(tmp_path, config, tensors, dtype=torch.float64)
    stored = load_file(path)
    layer = {n.removeprefix("model.layers.2.") for n in stored if n.startswith("model.layers.2.")}
    assert layer == {
        *(f"self_attn.{x}_proj.weight" for x in "qkvo"),
        *(f"mlp.{x}_proj.weight" for x in ("gate", "up", "down")),
        *(f"input_layernorm{x}.weight" for x in ("", "_2")),
        *(f"post_attention_layernorm{x}.weight" for x in ("", "_2")),
    }
    assert {n for n in stored if not n.startswith("model.layers.")} == {
        "lm_head.weight",
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.early_exit_gate.weight",
        "model.early_exit_gate.bias",
    }
    raw = json.loads((tmp_path / "config.json").read_text())
    assert (raw["model_type"], raw["total_ut_steps"]) == ("ouro", 4)


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def _turned(x: Tensor, base: float) -> Tensor:
    """Half-split rotation of x [T, heads, h], by the textbook formula."""
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.outer(torch.arange(len(x), dtype=torch.float32), frequencies)
    cos, sin = angles.cos().double().unsqueeze(1), angles.sin().double().unsqueeze(1)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)


def _gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


def test_ouro_equals_its_definition(tmp_path: Path) -> None:
    """Written down again from the description, over the published names."""
    config = CONFIGS["ouro_1_4b"]
    (path,) = save_checkpoint(tmp_path, config, random_tensors(config), dtype=torch.float64)
    w, eps = load_file(path), config.norm_eps
    h = w["model.embed_tokens.weight"][IDS[0]]
    for _ in range(config.loops):
        for i in range(config.core):
            p = f"model.layers.{i}."
            y = _norm(h, w[p + "input_layernorm.weight"], eps)
            q, k, v = (
                (y @ w[f"{p}self_attn.{n}_proj.weight"].T).view(len(y), config.n_heads, -1)
                for n in "qkv"
            )
            y = _attention(_turned(q, config.rope_base), _turned(k, config.rope_base), v)
            y = y @ w[p + "self_attn.o_proj.weight"].T
            h = h + _norm(y, w[p + "input_layernorm_2.weight"], eps)
            y = _norm(h, w[p + "post_attention_layernorm.weight"], eps)
            y = _gated(y, *(w[f"{p}mlp.{n}_proj.weight"] for n in ("gate", "up", "down")))
            h = h + _norm(y, w[p + "post_attention_layernorm_2.weight"], eps)
        h = _norm(h, w["model.norm.weight"], eps)
    found = load(tmp_path, dtype=torch.float64)(IDS[:1])[0]
    torch.testing.assert_close(found, h @ w["lm_head.weight"].T, rtol=0, atol=1e-6)


def test_the_olmo_block_equals_its_definition(tmp_path: Path) -> None:
    """Norms after each half and on whole query and key vectors; found by the tensors alone."""
    config = CONFIGS["raven_olmo"]
    save_checkpoint(tmp_path, config, random_tensors(config), dtype=torch.float64)
    model = load(tmp_path, dtype=torch.float64)
    assert model.config.layout == RAVEN_OLMO
    w, eps, p = model.tensors, config.norm_eps, "transformer.prelude.0."
    x = w["transformer.wte.weight"][IDS[0]]
    q, k, v = (x @ w[p + "attn.Wqkv.weight"].T).chunk(3, -1)
    q, k = (
        _norm(y, w[f"{p}attn.{n}_norm.weight"], eps).view(len(x), config.n_heads, -1)
        for y, n in ((q, "q"), (k, "k"))
    )
    y = _attention(_turned(q, config.rope_base), _turned(k, config.rope_base), v.view(q.shape))
    x = x + _norm(y @ w[p + "attn.proj.weight"].T, w[p + "norm_1.weight"], eps)
    y = _gated(x, *w[p + "mlp.fc.weight"].chunk(2), w[p + "mlp.proj.weight"])
    x = x + _norm(y, w[p + "norm_2.weight"], eps)
    found = probe(model, IDS[:1], loops=1).states["prelude", 0, 0][0]
    torch.testing.assert_close(found, x, rtol=0, atol=1e-6)


def test_exit_shares_add_up_to_one() -> None:
    model = random_model(CONFIGS["ouro_1_4b"])
    seen = probe(model, IDS)
    weight = model.tensors["transformer.ln_f.weight"]
    states = [
        _norm(seen.states["core", loop, model.config.core - 1], weight, 1e-6)
        for loop in range(1, 5)
    ]
    shares = exit_shares(model, states)
    assert shares.shape == (4, *IDS.shape)
    torch.testing.assert_close(shares.sum(0), torch.ones(IDS.shape, dtype=torch.float64))
    gate = model.tensors["early_exit_gate.weight"], model.tensors["early_exit_gate.bias"]
    first = torch.sigmoid(functional.linear(states[0], *gate))[..., 0]
    torch.testing.assert_close(shares[0], first)
    assert torch.equal(exit_shares(model, states[:1]), torch.ones(1, *IDS.shape).double())
    with pytest.raises(LoopedError, match="expected one with a gate"):
        exit_shares(random_model(CONFIGS["huginn_0125"]), states)


def _checkpoint(tmp_path: Path, name: str) -> list[Path]:
    tensors = random_tensors(CONFIGS[name])
    return save_checkpoint(tmp_path, CONFIGS[name], tensors, dtype=torch.float32, shard_bytes=9000)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    files = _checkpoint(tmp_path, "raven_llama_1b")
    files[1].unlink()
    with pytest.raises(WeightsError, match=f"index.json: names the file {files[1].name}"):
        load(tmp_path)


def test_an_index_cannot_lead_elsewhere(tmp_path: Path) -> None:
    _checkpoint(tmp_path / "inner", "raven_llama_1b")
    index = tmp_path / "inner" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "../model.safetensors"}}))
    with pytest.raises(WeightsError, match=r"names the file \.\./model.safetensors"):
        load(tmp_path / "inner")
    index.write_text("[]")
    with pytest.raises(WeightsError, match="not a readable index"):
        load(tmp_path / "inner")


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    files = _checkpoint(tmp_path, "raven_llama_1b")
    files[0].write_bytes(files[0].read_bytes()[:100])
    with pytest.raises(WeightsError, match=f"{files[0].name}: not a readable safetensors file"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["raven_llama_1b", "ouro_1_4b"])
def test_what_a_layout_does_not_have_is_refused(tmp_path: Path, name: str) -> None:
    (path,) = save_checkpoint(tmp_path, CONFIGS[name], random_tensors(CONFIGS[name]))
    stored = {n: t.clone() for n, t in load_file(path).items()}
    save_file({**stored, "freqs_cis": torch.ones(1, 64, 1, 3, 2)}, path)
    with pytest.raises(WeightsError, match="freqs_cis: unknown tensor for layout"):
        load(tmp_path)
    save_file({**stored, "transformer.h.0.weight": torch.ones(2)}, path)
    with pytest.raises(WeightsError, match=r"transformer.h.0.weight: unknown tensor"):
        load(tmp_path)


def test_stored_init_values_win(tmp_path: Path) -> None:
    """The converter keeps Huginn's std, so a state is drawn as the file says, not by width."""
    config = CONFIGS["raven_llama_1b"]
    save_checkpoint(tmp_path, config, random_tensors(config))
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    raw["init_values"] |= {"std": 0.25, "embed_scale": 2.0}
    raw["tie_word_embeddings"] = raw.pop("tie_embeddings")
    path.write_text(json.dumps(raw))
    model = load(tmp_path)
    assert (model.config.state_std, model.config.embed_scale) == (0.25, 2.0)
    assert not model.config.tied
    raw |= {"qk_bias": True}
    path.write_text(json.dumps(raw))
    with pytest.raises(WeightsError, match="missing"):
        load(tmp_path)


def test_ouro_configs_are_read_strictly(tmp_path: Path) -> None:
    config = CONFIGS["ouro_1_4b"]
    save_checkpoint(tmp_path, config, random_tensors(config))
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in raw.items() if k != "head_dim"}))
    assert load(tmp_path).config.head_dim == config.n_embd // config.n_heads
    for key, value, message in (
        ("hidden_act", "gelu", "hidden_act: found 'gelu', expected 'silu'"),
        ("use_sliding_window", True, "use_sliding_window: found True, expected False"),
        ("total_ut_steps", None, "total_ut_steps: found None, expected of type int"),
        ("num_hidden_layers", 0, "expected positive numbers"),
        ("rope_scaling", {"rope_type": "llama3"}, "rope_scaling.factor: found None"),
    ):
        path.write_text(json.dumps(raw | {key: value}))
        with pytest.raises(ConfigError, match=message):
            load(tmp_path)


def test_the_huginn_embedding_scale_is_fixed() -> None:
    """It is the root of the width and no weight; the others do not scale."""
    assert PUBLISHED["huginn_0125"].embed_scale == pytest.approx(5280**0.5)
    assert PUBLISHED["huginn_0125"].state_std == pytest.approx((2 / 5) ** 0.5)
    assert {PUBLISHED[n].embed_scale for n in PUBLISHED if n != "huginn_0125"} == {1.0}
