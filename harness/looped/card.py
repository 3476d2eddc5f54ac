"""What a trained model can do, measured on text that it never saw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from harness.looped.card_text import card_markdown
from harness.looped.config import LoopedConfig
from harness.looped.config_files import config_json
from harness.looped.decode import generate
from harness.looped.generation import FULL_PROMPT, Counters, Speculative
from harness.looped.held_out import held_out_loss, padded
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, full, ripe
from harness.looped.recipes import Recipe
from harness.looped.ripeness import measure_ripeness
from harness.looped.ripening import fit_whole, plane_distances
from harness.looped.start import KEYED
from harness.looped.training import Trained
from harness.looped.weights import load, save

LOOPS = (1, 2, 4, 8, 16, 32)
_DRAFT_LOOPS = (1, 2, 4)
_DRAFT_TOKENS = 4
_DRAFTED_ITEMS = 64
_RIPENED_ITEMS = 16
_BATCH = 32
_MOST_TOKENS = 112
_PLANES_TEXTS = 16
_PLANES_LENGTH = 192
_PLANES_WINDOWS = (0, 4, 8, 16, 32, 64)
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Probe:
    """Held-out items as token ids: `answers` end with the stop token.

    `right(i, tokens)` says whether the tokens answer item i, where that can be said; `drafts` asks
    for acceptance rates too.
    """

    name: str
    prompts: Sequence[list[int]]
    answers: Sequence[list[int]]
    stop: int
    right: Callable[[int, Sequence[int]], bool] | None = None
    drafts: bool = False


def write_model(
    folder: Path,
    config: LoopedConfig,
    recipe: Recipe,
    trained: Trained,
    probes: Sequence[Probe],
    report: Report,
) -> None:
    """Write weights, config and card; the card is measured on the files as written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = save(folder, trained.tensors)
    _write_json(folder / "config.json", config_json(config))
    facts = _training_facts(path, recipe, trained)
    facts["measured"] = measure(load(folder), probes, report)
    _write_json(folder / "card.json", facts)
    text = card_markdown(folder.name, facts)
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")
    report(f"wrote {folder}")


def measure(model: LoopedLM, probes: Sequence[Probe], report: Report) -> dict[str, Any]:
    """Loss and accuracy by loops for each probe, the ripening rate, and draft acceptance."""
    lines, drafts = [], []
    for probe in probes:
        line: dict[str, Any] = {"probe": probe.name, "items": len(probe.prompts)}
        line["answer_loss"] = _by_loops(model, probe, _loss)
        if probe.right is not None:
            line["accuracy"] = _by_loops(model, probe, _accuracy)
        lines.append(line)
        report(json.dumps(line))
        if probe.drafts:
            drafts += _acceptance(model, probe, report)
    ripening = _ripening(model, probes[0])
    report(json.dumps(ripening))
    planes = _planes(model, probes)
    report(json.dumps(planes))
    return {
        "start": KEYED,
        "probes": lines,
        "ripening": ripening,
        "planes": planes,
        "acceptance": drafts,
    }


def _training_facts(path: Path, recipe: Recipe, trained: Trained) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "recipe": asdict(recipe),
        "steps": trained.steps,
        "tokens": trained.tokens,
        "data_digest": trained.data_digest,
        "parameters": sum(t.numel() for t in trained.tensors.values()),
        "file_bytes": len(data),
        "file_sha256": hashlib.sha256(data).hexdigest(),
        "torch": torch.__version__,
    }


def _by_loops(
    model: LoopedLM, probe: Probe, value: Callable[[LoopedLM, Probe, int], float]
) -> dict[str, float]:
    return {str(loops): round(value(model, probe, loops), 4) for loops in LOOPS}


def _loss(model: LoopedLM, probe: Probe, loops: int) -> float:
    pairs = list(zip(probe.prompts, probe.answers, strict=True))
    rows = [prompt + answer for prompt, answer in pairs]
    mass = [[0.0] * len(prompt) + [1.0] * len(answer) for prompt, answer in pairs]
    ids, weights = padded(rows, mass)
    return held_out_loss(model, ids, weights, loops, start=KEYED)


def _accuracy(model: LoopedLM, probe: Probe, loops: int) -> float:
    assert probe.right is not None
    right = 0
    for begin in range(0, len(probe.prompts), _BATCH):
        found = generate(
            model,
            probe.prompts[begin : begin + _BATCH],
            prefill=FULL_PROMPT,
            loops=loops,
            max_tokens=_MOST_TOKENS,
            stop=(probe.stop,),
            start=KEYED,
        )
        right += sum(probe.right(begin + i, row.tokens) for i, row in enumerate(found.rows))
    return right / len(probe.prompts)


def _ripening(model: LoopedLM, probe: Probe) -> dict[str, Any]:
    pairs = zip(probe.prompts[:_RIPENED_ITEMS], probe.answers, strict=False)
    rows = [prompt + answer for prompt, answer in pairs]
    shortest = min(map(len, rows))
    ids = torch.tensor([row[:shortest] for row in rows])
    fit = fit_whole(plane_distances(model, ids, LOOPS[-1], start=KEYED))
    return {
        "rho": round(fit.rho, 4),
        "scale": round(fit.scale, 4),
        "loops": [fit.first, fit.last],
        "median_distance": [float(f"{m:.3g}") for m in fit.medians],
    }


def _planes(model: LoopedLM, probes: Sequence[Probe]) -> dict[str, Any]:
    """What windows change against the full cache, and what bfloat16 rounding does, as KL.

    Texts are the probes' items, one after the other, cut to one length.
    """
    length = min(_PLANES_LENGTH, model.config.block_size)
    items = [
        [prompt + answer for prompt, answer in zip(probe.prompts, probe.answers, strict=True)]
        for probe in probes
    ]
    whole = [token for several in zip(*items, strict=False) for item in several for token in item]
    texts = [whole[i : i + length] for i in range(0, len(whole) - length + 1, length)]
    ids = torch.tensor(texts[:_PLANES_TEXTS] or [whole])
    found = measure_ripeness(model, ids, loops=LOOPS[-1], windows=_PLANES_WINDOWS)
    lines = {"bfloat16": found.rounding}
    lines |= {f"W = {window}": divergence for window, divergence in found.by_window.items()}
    return {
        "positions": found.positions,
        "late_distance": float(f"{found.late:.3g}"),
        "bfloat16_distance": float(f"{found.floor:.3g}"),
        "divergence": [
            {"reads": name} | {key: float(f"{value:.3g}") for key, value in asdict(line).items()}
            for name, line in lines.items()
        ],
    }


def _acceptance(model: LoopedLM, probe: Probe, report: Report) -> list[dict[str, Any]]:
    lines = []
    for policy in (full(), ripe(16)):
        for draft_policy in ("policy", "deepest"):
            for draft_loops in _DRAFT_LOOPS:
                mode = Speculative(draft_loops, _DRAFT_TOKENS, draft_policy)
                counters = _drafted(model, probe, policy, mode)
                rates = [
                    round(kept / tried, 4)
                    for kept, tried in zip(counters.kept, counters.tried, strict=True)
                    if tried
                ]
                line = {
                    "probe": probe.name,
                    "policy": policy.label,
                    "draft_loops": draft_loops,
                    "draft_policy": draft_policy,
                    "by_place": rates,
                }
                report(json.dumps(line))
                lines.append(line)
    return lines


def _drafted(model: LoopedLM, probe: Probe, policy: Policy, mode: Speculative) -> Counters:
    found = generate(
        model,
        probe.prompts[:_DRAFTED_ITEMS],
        policy=policy,
        prefill=FULL_PROMPT,
        decode=mode,
        loops=LOOPS[-1],
        max_tokens=_MOST_TOKENS,
        stop=(probe.stop,),
        start=KEYED,
    )
    return found.counters


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
