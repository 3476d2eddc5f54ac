"""What the patch refuses before an engine starts, in one sentence each."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.backends.sglang.models.settings import Settings
from harness.backends.sglang.ripe.checks import TORCH_NATIVE, TRITON, check_engine
from harness.backends.sglang.ripe.options import Options, RipeError, read_options
from harness.backends.sglang.ripe.pool import core_of, grow, rings_of
from harness.looped.published import PUBLISHED

GOOD = {"window": 4, "loops": 3, "requests": 2, "prefill": "full_prompt"}
CONFIG = PUBLISHED["huginn_0125"]


class MHATokenToKVPool(SimpleNamespace):
    """The name and the attributes that the patch looks at."""


def make_pool(**changes: Any) -> MHATokenToKVPool:
    layers = Settings(CONFIG, 3, "shared").cache_layers
    both = [torch.zeros(2, 11, 1, 2) for _ in range(layers)]
    given = {
        "size": 10,
        "page_size": 1,
        "start_layer": 0,
        "head_dim": 2,
        "v_head_dim": 2,
        "kv_cache_layout": "nhd",
        "is_quantized_kv_cache": False,
        "store_dtype": torch.float32,
        "k_buffer": [pair[0] for pair in both],
        "v_buffer": [pair[1] for pair in both],
    }
    return MHATokenToKVPool(**{**given, **changes})


def make_runner(options: Options, **changes: Any) -> SimpleNamespace:
    """A model runner that fits; `changes` are arguments of the server."""
    arguments = {
        "disable_radix_cache": True,
        "chunked_prefill_size": -1,
        "prefill_attention_backend": None,
        "decode_attention_backend": TORCH_NATIVE,
        "disable_cuda_graph": True,
        "page_size": 1,
        "speculative_algorithm": None,
        "enable_mixed_chunk": False,
        "disaggregation_mode": "null",
    }
    model = SimpleNamespace(looped=Settings(CONFIG, options.loops, "shared"))
    pool = make_pool()
    grow(pool, model.looped.core_ids, rings_of(pool, options))
    return SimpleNamespace(
        server_args=SimpleNamespace(**{**arguments, **changes}),
        model=model,
        token_to_kv_pool=pool,
        req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(3, 20)),
    )


def options_of(**changes: Any) -> Options:
    return Options(**{**GOOD, **changes})


def test_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RIPE", json.dumps(GOOD))
    assert read_options() == options_of()
    assert options_of().longest_pass is None
    assert options_of(prefill="exact").longest_pass == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "HARNESS_RIPE: not set"),
        ("{", "HARNESS_RIPE: not JSON"),
        ("[]", "HARNESS_RIPE: found list"),
        (json.dumps({**GOOD, "more": 1}), "HARNESS_RIPE: found"),
        (json.dumps({"window": 4}), "expected the keys"),
        (json.dumps({**GOOD, "window": -1}), "window: found -1"),
        (json.dumps({**GOOD, "window": True}), "window: found True"),
        (json.dumps({**GOOD, "loops": 0}), "loops: found 0"),
        (json.dumps({**GOOD, "requests": "2"}), "requests: found '2'"),
        (json.dumps({**GOOD, "prefill": "some"}), "prefill: found 'some'"),
    ],
)
def test_bad_settings_are_named(
    monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.delenv("HARNESS_RIPE", raising=False)
    if text is not None:
        monkeypatch.setenv("HARNESS_RIPE", text)
    with pytest.raises(RipeError, match=message):
        read_options()


def test_an_engine_that_fits_is_accepted() -> None:
    check_engine(make_runner(options_of()), options_of())
    exact = options_of(prefill="exact")
    check_engine(make_runner(exact, chunked_prefill_size=5), exact)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"disable_radix_cache": False}, "radix cache: found it on"),
        ({"chunked_prefill_size": 2048}, "chunked_prefill_size: found 2048, expected -1"),
        ({"prefill_attention_backend": "torch_native"}, "prefill_attention_backend: found"),
        ({"decode_attention_backend": TRITON}, "expected 'ripe_torch_native' for every pass"),
        ({"disable_cuda_graph": False}, "CUDA graphs: found them on"),
        ({"page_size": 16}, "page_size: found 16"),
        ({"speculative_algorithm": "NGRAM"}, "speculation: found NGRAM"),
        ({"enable_mixed_chunk": True}, "mixed chunks"),
        ({"disaggregation_mode": "decode"}, "disaggregation: found 'decode'"),
    ],
)
def test_bad_arguments_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RipeError, match=message):
        check_engine(make_runner(options_of(), **changes), options_of())


@pytest.mark.parametrize("size", [6, 0, -1, None])
def test_exact_prefill_needs_short_chunks(size: int | None) -> None:
    options = options_of(prefill="exact")
    with pytest.raises(RipeError, match=rf"found {size}, expected 1 to 5"):
        check_engine(make_runner(options, chunked_prefill_size=size), options)


def test_more_slots_than_rings_are_refused() -> None:
    runner = make_runner(options_of(requests=1))
    with pytest.raises(RipeError, match=r"requests: found 1 .* the engine's 2 request slots"):
        check_engine(runner, options_of(requests=1))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SimpleNamespace(), "model: found SimpleNamespace"),
        (SimpleNamespace(looped=Settings(CONFIG, 3, "full")), "planes: found 'full'"),
        (SimpleNamespace(looped=Settings(CONFIG, 8, "shared")), "loops: found 8 in the model"),
    ],
)
def test_other_models_are_refused(model: object, message: str) -> None:
    with pytest.raises(RipeError, match=message):
        core_of(model, options_of())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_cache_layout": "hnd"}, "found layout 'hnd'"),
        ({"is_quantized_kv_cache": True}, "expected rows of tokens that are not quantised"),
        ({"v_head_dim": 4}, "keys and values of different sizes"),
    ],
)
def test_other_pools_are_refused(changes: dict[str, Any], message: str) -> None:
    pool = make_pool(**changes)
    with pytest.raises(RipeError, match=message):
        grow(pool, range(2, 6), rings_of(pool, options_of()))
    with pytest.raises(RipeError, match="KV pool: found SimpleNamespace"):
        grow(SimpleNamespace(), range(2, 6), rings_of(pool, options_of()))


def test_only_the_core_grows() -> None:
    pool = make_pool()
    rings = rings_of(pool, options_of())
    grow(pool, range(2, 6), rings)
    assert rings.rows == 4 * 2 * 3
    rows = [11, 11, 35, 35, 35, 35, 11, 11]
    assert [buffer.shape[0] for buffer in pool.k_buffer] == rows
    assert [buffer.shape[0] for buffer in pool.v_buffer] == rows


def test_a_pool_that_did_not_grow_is_noticed() -> None:
    runner = make_runner(options_of())
    runner.token_to_kv_pool = make_pool()
    with pytest.raises(RipeError, match="found 11 rows in cache layer 2, expected 35"):
        check_engine(runner, options_of())
