"""What must hold of an engine on this node: it decodes what `harness.looped` decodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.backends.http.answers import Answer

if TYPE_CHECKING:
    from harness.backends.sglang.arguments import Served
    from harness.backends.sglang.holdings import Holdings
    from harness.backends.sglang.options import Treatment

MARGIN = 1e-2
"""Of the two best logits below which rounding may turn a token."""


def checks(
    served: Served,
    treatment: Treatment,
    prompts: Sequence[list[int]],
    answers: Sequence[Answer],
    holdings: Holdings,
) -> list[dict[str, Any]]:
    """Return the checks: the pool's bytes and, in float32, the tokens."""
    failed = [answer.error for answer in answers if answer.error is not None]
    found = [_check("the engine generates", not failed, "; ".join(map(str, failed)))]
    if not served.ours:
        return found
    same = holdings.as_formula
    detail = f"{holdings.pool_bytes} bytes, by formula {holdings.formula_bytes}"
    found.append(_check("the engine's KV pool has the bytes of the formula", same, detail))
    if served.dtype != "float32" or failed:
        return found
    wrong = [_difference(served, treatment, p, a) for p, a in zip(prompts, answers, strict=True)]
    said = [one for one in wrong if one]
    detail = "; ".join(said) or f"{len(prompts)} prompts"
    name = "greedy tokens are those of harness.looped, but for near ties"
    return [*found, _check(name, not said, detail)]


def _difference(served: Served, treatment: Treatment, prompt: list[int], answer: Answer) -> str:
    """Compare up to the first near tie, where rounding may decide."""
    import torch

    from harness.backends.looped_arm import policy_of
    from harness.looped.decode import generate
    from harness.looped.generation import Sequential
    from harness.looped.weights import load

    model = load(served.folder, device="cpu", dtype=torch.float32)
    row = generate(
        model,
        [prompt],
        policy=policy_of({"policy": treatment.policy, "window": treatment.window}),
        prefill=treatment.prefill,
        decode=Sequential(),
        loops=treatment.loops,
        max_tokens=len(answer.ids),
        stop=[],
        start="keyed",
    ).rows[0]
    ties = {place for place, margin in row.near_ties or () if margin < MARGIN}
    for place, (ours, theirs) in enumerate(zip(row.tokens, answer.ids, strict=True)):
        if ours != theirs:
            return "" if place in ties else f"token {place}: {theirs}, expected {ours}"
    return ""


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail}
