"""A model card in Markdown, from measured facts."""

from __future__ import annotations

from typing import Any

_SHAPE = (
    "A small looped language model in the Huginn layout (1 prelude, 2 core, 1 coda layers, width "
    "128), trained "
)
_MEASURED = (
    " on text that this project generates. Every number below was measured by the program that "
    "wrote this card, on items of the explore bucket, with the bf16 weights of this folder "
    "computed in fp32."
)


def card_markdown(name: str, facts: dict[str, Any]) -> str:
    """The card of the model `name`."""
    measured = facts["measured"]
    sections = [
        f"# {name}",
        _SHAPE + _origin(facts["recipe"]) + _MEASURED,
        *_slowness(facts["recipe"]),
        _facts_table(facts),
        "## Loops",
        _loops_table(measured["probes"]),
        *_planes(measured.get("planes")),
        "## Drafts of four tokens: conditional acceptance by place",
        _drafts_table(measured["acceptance"]),
        "## Rebuild",
        f"`harness train {name}` trains it again on one thread. Each step depends on the recipe "
        "and its seed only; another machine or torch version rounds differently and ends in "
        "another file. The recipe, its last part included, was chosen by looking at train and "
        "explore items; no select or confirm item was drawn for it.",
    ]
    return "\n\n".join(sections) + "\n"


def _origin(recipe: dict[str, Any]) -> str:
    warm = recipe.get("warm_start")
    return f"from the embedding, prelude and coda of {warm}" if warm else "from nothing"


def _slowness(recipe: dict[str, Any]) -> list[str]:
    """What makes the loop slow, for a recipe that does."""
    if not recipe.get("adapter_start"):
        return []
    keep, push = recipe["adapter_start"]
    caps = "; ".join(f"`{pattern}` {cap:g}" for pattern, cap in recipe["caps"])
    return [
        f"Its loop is slow by construction. The adapter is held at {keep:g} times the state plus "
        f"{push:g} times the prelude's output, turned by a fixed orthogonal matrix, and the core's "
        "post-norms are held at 1. So a loop keeps nearly all of a state of unit size, and if it "
        "adds a push of size p, distances shrink by about a / (a + p). These matrices were kept at "
        f"or below a Frobenius norm during training, which bounds p: {caps}. The saved model is an "
        "ordinary one of its layout."
    ]


def _planes(found: dict[str, Any] | None) -> list[str]:
    """What windows change, where it was measured."""
    if found is None:
        return []
    rows = [
        [
            line["reads"],
            f"{line['mean']:.2e}",
            f"{line['high']:.2e}",
            f"{line['largest']:.2e}",
            f"{line['top_share']:.2f}",
        ]
        for line in found["divergence"]
    ]
    head = ["reads", "mean KL (nats)", "99 %", "largest", "share of the top 1 %"]
    return [
        "## Planes against the full cache",
        f"{found['positions']} positions, token by token, 32 loops. Median distance of the late "
        f"planes from the settled one: {found['late_distance']:.2g}; bfloat16 rounding of plane "
        f"32: {found['bfloat16_distance']:.2g}.",
        _table(head, rows),
    ]


def _facts_table(facts: dict[str, Any]) -> str:
    recipe, measured = facts["recipe"], facts["measured"]
    ripening = measured["ripening"]
    first, last = ripening["loops"]
    return _table(
        ["item", "value"],
        [
            ["parameters", f"{facts['parameters']}"],
            ["file", f"{facts['file_bytes']} bytes, SHA-256 `{facts['file_sha256']}`"],
            ["recipe, seed", f"{recipe['name']}, {recipe['seed']}"],
            ["steps, tokens", f"{facts['steps']}, {facts['tokens']}"],
            ["data digest", f"`{facts['data_digest']}`"],
            [
                "ripening rate",
                f"{ripening['rho']} per loop (fp32, medians, loops {first} to {last})",
            ],
            ["start state", f"{measured['start']}, seed 0"],
            ["torch", f"{facts['torch']}"],
        ],
    )


def _loops_table(probes: list[dict[str, Any]]) -> str:
    loops = sorted(probes[0]["answer_loss"], key=int)
    rows = []
    for key, title in (("accuracy", "accuracy"), ("answer_loss", "answer loss (nats)")):
        for probe in probes:
            if key in probe:
                label = f"{title}, {probe['probe']} ({probe['items']} items)"
                rows.append([label, *(f"{probe[key][r]:.3f}" for r in loops)])
    return _table(["measure", *(f"r = {r}" for r in loops)], rows)


def _drafts_table(lines: list[dict[str, Any]]) -> str:
    rows = [
        [
            line["probe"],
            line["policy"],
            str(line["draft_loops"]),
            line["draft_policy"],
            ", ".join(f"{p:.3f}" for p in line["by_place"]),
        ]
        for line in lines
    ]
    return _table(["probe", "cache", "draft loops", "draft reads", "places 1 to 4"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
