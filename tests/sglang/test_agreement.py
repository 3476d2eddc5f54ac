"""Real SGLang engines against our own looped models, in float32 on the CPU.

Six engines are started in all. Each serves six ragged requests on four request slots, so slots are
used again. Where answers are forced, a logit processor deals out given tokens and every row of
log-probs is compared; the exact prefill is compared on the log-probs of its prompts, which it
computes in chunks. A prompt in one pass says nothing about a policy; what follows it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.backends.sglang.pool import padding_bytes, pool_bytes
from harness.backends.sglang.view import make_view
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, deepest, full, ripe
from harness.looped.weights import find, load
from tests.sglang.agreement_reference import chosen, log_probs, nanbeige_log_probs
from tests.sglang.agreement_runs import PYTHON, Engine, Outcome, run
from tests.sglang.nanbeige import VOCAB, make_nanbeige

pytestmark = [
    pytest.mark.sglang,
    pytest.mark.timeout(420),
    pytest.mark.skipif(not PYTHON, reason="SGLang is not installed: harness env create sglang"),
]

LOOPS, REQUESTS = 4, 4
TOLERANCE, APART = 1e-3, 0.02
RAVEN = Path(__file__).parents[1] / "looped" / "golden" / "raven_llama_random"
OBSERVER_HOOKS = {
    "sglang.srt.model_executor.model_runner.ModelRunner.forward|after|harness_observer",
    "sglang.srt.model_executor.model_runner.ModelRunner.init_attention_backends|after|harness_observer",
}

# name: (model, policy, window, prefill)
CASES: dict[str, tuple[str, str, int, str]] = {
    "tiny-full": ("tiny_ripe", "full", 0, "full_prompt"),
    "tiny-ripe-4-exact": ("tiny_ripe", "ripe", 4, "exact"),
    "tiny-ripe-16": ("tiny_ripe", "ripe", 16, "full_prompt"),
    "raven-full": (str(RAVEN), "full", 0, "full_prompt"),
    "raven-deepest": (str(RAVEN), "deepest", 0, "full_prompt"),
}
FORCED = [name for name, case in CASES.items() if case[3] == "full_prompt"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """What each case's engine did; it is started on first use."""

    @cache
    def made(name: str) -> Outcome:
        folder = tmp_path_factory.mktemp(name)
        model, policy, window, prefill = CASES[name]
        patched = policy != "full"
        planes = "shared" if patched else "full"
        make_view(find(model), folder / "view", loops=LOOPS, planes=planes, dtype="float32")
        settings = {"window": window, "loops": LOOPS, "requests": REQUESTS, "prefill": prefill}
        engine = Engine(
            folder / "view",
            ripe=settings if patched else None,
            arguments={"chunked_prefill_size": window + 1} if prefill == "exact" else {},
        )
        found = run(engine, [call(name)], folder / "run", requests=REQUESTS)
        assert found.code == 0, found.stderr[-2000:]
        return found

    return made


@cache
def texts() -> list[tuple[list[int], list[int]]]:
    """Prompts and answers of six requests."""
    generator = torch.Generator().manual_seed(5)

    def some(count: int) -> list[int]:
        return torch.randint(3, 128, (count,), generator=generator).tolist()

    lengths = [(5, 24), (17, 24), (40, 24), (3, 12), (9, 20), (26, 30)]
    return [(some(prompt), some(answer)) for prompt, answer in lengths]


def call(name: str) -> dict[str, Any]:
    if name in FORCED:
        return {"prompts": [p for p, _ in texts()], "forced": [a for _, a in texts()]}
    return {"prompts": [p + a for p, a in texts()], "new": 8, "prompt_logprobs": True}


@cache
def model_of(name: str) -> LoopedLM:
    return load(CASES[name][0])


def policy_of(name: str) -> Policy:
    _, kind, window, _ = CASES[name]
    return full() if kind == "full" else ripe(window)


def differences(name: str, found: Outcome, policy: Policy) -> list[float]:
    """For each request the largest difference of a log-prob from a policy's reference."""
    model, prefill = model_of(name), CASES[name][3]
    largest = []
    for row, (prompt, answer) in enumerate(texts()):
        if name in FORCED:
            rows = torch.from_numpy(found.rows(0, row, model.config.vocab))
            whole = log_probs(model, prompt, answer, policy, prefill, LOOPS)
            expected = whole[len(prompt) - 1 : -1]
        else:
            result = found.results[0][row]
            tokens = prompt + answer + result["tokens"]
            rows = torch.tensor(result["prompt_logprobs"][1:] + result["logprobs"])
            expected = chosen(log_probs(model, tokens, [], policy, prefill, LOOPS), tokens)
        assert rows.shape == expected.shape
        largest.append(float((rows - expected).abs().max()))
    return largest


@pytest.mark.parametrize("name", CASES)
def test_log_probs_agree_with_the_policy_and_with_no_other(name: str, outcome) -> None:
    found = outcome(name)
    own = policy_of(name)
    others = [policy for policy in (full(), deepest(), ripe(4), ripe(16)) if policy != own]
    largest = {policy.label: max(differences(name, found, policy)) for policy in (own, *others)}
    print(name, {label: f"{value:.1e}" for label, value in largest.items()})
    assert largest.pop(own.label) < TOLERANCE
    assert min(largest.values()) > APART


@pytest.mark.parametrize("name", FORCED)
def test_forced_tokens_were_dealt_out(name: str, outcome) -> None:
    results = outcome(name).results[0]
    assert [row["tokens"] for row in results] == [answer for _, answer in texts()]


@pytest.mark.parametrize("name", CASES)
def test_nothing_was_cached_or_taken_back(name: str, outcome) -> None:
    for row in outcome(name).results[0]:
        assert (row["cached"], row["retractions"]) == (0, 0)


@pytest.mark.parametrize("name", CASES)
def test_the_pools_bytes_are_formula_and_padding(name: str, outcome) -> None:
    _, policy, window, _ = CASES[name]
    facts = outcome(name).facts
    pool = next(fact["pool"] for fact in facts if fact["plugin"] == "harness_observer")
    config = model_of(name).config
    same: dict[str, Any] = {
        "policy": policy, "window": window, "loops": LOOPS, "page_size": pool["page_size"],
        "itemsize": 4,
    }  # fmt: skip
    held = pool_bytes(config, tokens=pool["size"], requests=REQUESTS, **same)
    padding = padding_bytes(config, **same)
    print(name, {"tokens": pool["size"], "bytes": pool["bytes"], "padding": padding})
    assert pool["bytes"] == held + padding
    assert pool["storage_bytes"] == pool["bytes"]


def test_the_patch_shows_in_facts_and_counters(outcome) -> None:
    patched, pristine = outcome("tiny-ripe-16"), outcome("tiny-full")
    assert patched.counters["ripe_reads"] > 0
    assert patched.counters["ripe_ring_writes"] > 0
    assert "ripe_reads" not in pristine.counters
    observed, ripened = sorted(patched.facts, key=lambda fact: fact["plugin"])
    assert observed["foreign_attention_backends"] == ["ripe_torch_native", "ripe_triton"]
    assert any(hook.endswith("|harness_ripe") for hook in observed["hooks"])
    assert ripened["ripe"]["window"] == 16


def test_pristine_shows_only_the_observer(outcome) -> None:
    (observed,) = outcome("raven-full").facts
    assert set(observed["hooks"]) == OBSERVER_HOOKS
    assert observed["foreign_attention_backends"] == []
    assert observed["attention_backend"].endswith("TorchNativeAttnBackend")


def test_sglangs_own_looped_model_equals_an_explicit_one(tmp_path: Path) -> None:
    folder = make_nanbeige(tmp_path / "nanbeige")
    prompts = [prompt for prompt, _ in texts()]
    engine = Engine(folder, external=False)
    found = run(engine, [{"prompts": prompts, "new": 24}], tmp_path / "run")
    assert found.code == 0, found.stderr[-2000:]
    for prompt, row in zip(prompts, found.results[0], strict=True):
        tokens = prompt + row["tokens"]
        rows = nanbeige_log_probs(folder, tokens)[len(prompt) - 1 :]
        assert rows.shape[1] == VOCAB
        assert row["tokens"] == rows[:-1].argmax(-1).tolist()
        expected = chosen(rows, tokens[len(prompt) - 1 :])
        largest = float((torch.tensor(row["logprobs"]) - expected).abs().max())
        print(f"nanbeige {largest:.1e}")
        assert largest < TOLERANCE
