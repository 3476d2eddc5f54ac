"""What a finished training writes: weights, config, tokenizer, and a card that it measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from harness.looped.config import LoopedConfig, config_json
from harness.looped.decode import generate
from harness.looped.generation import FULL_PROMPT, Generation, Speculative
from harness.looped.held_out import held_out_loss, padded
from harness.looped.model import LoopedLM
from harness.looped.policies import Policy, full, ripe
from harness.looped.recipes import Recipe
from harness.looped.ripening import fit_ripening, plane_distances
from harness.looped.start import KEYED
from harness.looped.training import Trained
from harness.looped.weights import load, save
from harness.tasks import arithmetic, notes
from harness.tasks.answers import RIGHT, score
from harness.tasks.arithmetic import Difficulty
from harness.tasks.items import Item
from harness.tasks.tokenizer import END, Tokenizer

LOOPS = (1, 2, 4, 8, 16, 32)
DIFFICULTIES = (
    Difficulty((1, 2), 99),
    Difficulty((2, 3), 299),
    Difficulty((2, 4), 299),
    Difficulty((2, 4), 999),
)
_SEED = "card"
_BATCH = 32
Report = Callable[[str], None]


def write_model(
    folder: Path,
    config: LoopedConfig,
    tokenizer: Tokenizer,
    recipe: Recipe,
    trained: Trained,
    report: Report,
    items: int = 128,
) -> None:
    """Write the model's folder; the card is measured on explore items from the written files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = save(folder, trained.tensors, torch.bfloat16)
    text = json.dumps(config_json(config), indent=1, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    tokenizer.save(folder / "tokenizer.json")
    facts = _training_facts(path, recipe, trained)
    facts["measured"] = _measure(load(folder), tokenizer, items, report)
    card = json.dumps(facts, indent=1, sort_keys=True) + "\n"
    (folder / "card.json").write_text(card, encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(_markdown(folder.name, facts), encoding="utf-8")
    report(f"wrote {folder}")


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


def _measure(model: LoopedLM, tokenizer: Tokenizer, count: int, report: Report) -> dict[str, Any]:
    problems = arithmetic.draw("explore", _SEED, count, Difficulty((2, 4), 299))
    tales = notes.draw("explore", _SEED, count)
    measured: dict[str, Any] = {"items": count, "start": KEYED, "accuracy": []}
    for name, items in ((arithmetic.FAMILY, problems), (notes.FAMILY, tales)):
        losses = _losses(model, tokenizer, items)
        measured[f"answer_loss_{name}"] = losses
        report(f"{name}: answer loss by loops {losses}")
    for difficulty in DIFFICULTIES:
        line = _accuracy(model, tokenizer, count, difficulty)
        measured["accuracy"].append(line)
        report(f"accuracy {line}")
    measured["ripening"] = _ripening(model, tokenizer, problems[:16])
    report(f"ripening rate {measured['ripening']['rho']:.3f}")
    measured["acceptance"] = _acceptance(model, tokenizer, problems[:64], tales[:64])
    for line in measured["acceptance"]:
        report(f"acceptance {line}")
    return measured


def _losses(model: LoopedLM, tokenizer: Tokenizer, items: tuple[Item, ...]) -> dict[str, float]:
    rows, weights = [], []
    for item in items:
        prompt, answer = tokenizer.encode(item.prompt), [*tokenizer.encode(item.answer), END]
        rows.append(prompt + answer)
        weights.append([0.0] * len(prompt) + [1.0] * len(answer))
    ids, mass = padded(rows, weights)
    return {str(r): round(held_out_loss(model, ids, mass, r, start=KEYED), 4) for r in LOOPS}


def _accuracy(
    model: LoopedLM, tokenizer: Tokenizer, count: int, difficulty: Difficulty
) -> dict[str, Any]:
    items = arithmetic.draw("explore", _SEED, count, difficulty)
    by_loops = {}
    for loops in LOOPS:
        right = 0
        for begin in range(0, count, _BATCH):
            part = items[begin : begin + _BATCH]
            rows = _generate(model, tokenizer, part, loops=loops).rows
            texts = [tokenizer.decode(row.tokens) for row in rows]
            right += sum(score(t, i.answer) == RIGHT for t, i in zip(texts, part, strict=True))
        by_loops[str(loops)] = round(right / count, 4)
    return {**asdict(difficulty), "by_loops": by_loops}


def _generate(
    model: LoopedLM,
    tokenizer: Tokenizer,
    items: tuple[Item, ...],
    *,
    loops: int = 32,
    policy: Policy | None = None,
    decode: Speculative | None = None,
) -> Generation:
    return generate(
        model,
        [tokenizer.encode(item.prompt) for item in items],
        policy=policy,
        prefill=FULL_PROMPT,
        decode=decode,
        loops=loops,
        max_tokens=112,
        stop=(END,),
        start=KEYED,
    )


def _ripening(model: LoopedLM, tokenizer: Tokenizer, items: tuple[Item, ...]) -> dict[str, Any]:
    text = [tokenizer.encode(item.prompt + item.answer) for item in items]
    shortest = min(map(len, text))
    ids = torch.tensor([row[:shortest] for row in text])
    fit = fit_ripening(plane_distances(model, ids, 32, start=KEYED))
    return {
        "rho": round(fit.rho, 4),
        "scale": round(fit.scale, 4),
        "loops": [fit.first, fit.last],
        "median_distance": [float(f"{m:.3g}") for m in fit.medians],
    }


def _acceptance(
    model: LoopedLM, tokenizer: Tokenizer, problems: tuple[Item, ...], tales: tuple[Item, ...]
) -> list[dict[str, Any]]:
    lines = []
    for family, items in ((arithmetic.FAMILY, problems), (notes.FAMILY, tales)):
        for draft_loops in (1, 2, 4):
            for draft_policy in ("policy", "deepest"):
                mode = Speculative(draft_loops, 4, draft_policy)
                for policy in (full(), ripe(16)):
                    found = _generate(model, tokenizer, items, policy=policy, decode=mode)
                    tried, kept = found.counters.tried, found.counters.kept
                    lines.append(
                        {
                            "family": family,
                            "policy": policy.label,
                            "draft_loops": draft_loops,
                            "draft_policy": draft_policy,
                            "by_place": [
                                round(k / t, 4) for k, t in zip(kept, tried, strict=True) if t
                            ],
                        }
                    )
    return lines


def _markdown(name: str, facts: dict[str, Any]) -> str:
    recipe, measured = facts["recipe"], facts["measured"]
    lines = [
        f"# {name}",
        "",
        "A small looped language model in the Huginn layout (1 prelude, 2 core, 1 coda layers, "
        "width 128), trained from nothing on worded arithmetic and short notes that this project "
        "generates. Every number below was measured by the program that wrote this card, on "
        "items of the explore bucket, from the shipped bf16 weights computed in fp32.",
        "",
        "| item | value |",
        "| --- | --- |",
        f"| parameters | {facts['parameters']} |",
        f"| file | {facts['file_bytes']} bytes, SHA-256 `{facts['file_sha256']}` |",
        f"| recipe, seed | {recipe['name']}, {recipe['seed']} |",
        f"| steps, tokens | {facts['steps']}, {facts['tokens']} |",
        f"| data digest | `{facts['data_digest']}` |",
        f"| ripening rate | {measured['ripening']['rho']} per loop, fp32, median, loops "
        f"{measured['ripening']['loops'][0]} to {measured['ripening']['loops'][1]} |",
        f"| start state | {measured['start']}, seed 0 |",
        "",
        f"## Loops ({measured['items']} items a line)",
        "",
        "| measure | " + " | ".join(f"r = {r}" for r in LOOPS) + " |",
        "| --- |" + " --- |" * len(LOOPS),
    ]
    for family in (arithmetic.FAMILY, notes.FAMILY):
        values = measured[f"answer_loss_{family}"].values()
        lines.append(f"| answer loss, {family} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    for line in measured["accuracy"]:
        low, high = line["steps"]
        label = f"accuracy, {low} to {high} steps, numbers to {line['max_number']}"
        values = line["by_loops"].values()
        lines.append(f"| {label} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    lines += [
        "",
        "## Drafts of four tokens: conditional acceptance by place",
        "",
        "| family | cache | draft loops | draft reads | places 1 to 4 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in measured["acceptance"]:
        places = ", ".join(f"{p:.3f}" for p in line["by_place"])
        lines.append(
            f"| {line['family']} | {line['policy']} | {line['draft_loops']} | "
            f"{line['draft_policy']} | {places} |"
        )
    lines += [
        "",
        "Rebuild: `python -m harness.cli.train --recipe "
        f"{recipe['name']} --output <folder> --work <folder>`, one thread. The same machine and "
        "torch version give the same file; another may differ in the last bits.",
        "",
    ]
    return "\n".join(lines)
