"""What must hold of a looped decoder on this node, in float64, and how far its dtype rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.looped.model import LoopedLM

TOKENS = 12


def checks(
    model: LoopedLM, prompts: Sequence[Sequence[int]], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the checks: speculation is exact, rows are independent, rounding is small."""
    import torch

    from harness.looped.decode import generate
    from harness.looped.generation import Sequential
    from harness.looped.model import LoopedLM

    exact = LoopedLM(model.config, {name: t.double() for name, t in model.tensors.items()})
    short = {**options, "max_tokens": TOKENS}
    batch = generate(exact, prompts, **short)
    plain = generate(exact, prompts, **{**short, "decode": Sequential()})
    alone = [generate(exact, [prompt], **short).rows[0].tokens for prompt in prompts]
    together = [row.tokens for row in batch.rows]
    longest = max(prompts, key=len)
    ids = torch.tensor([list(longest)], device=model.device)
    with torch.inference_mode():
        reference = exact.forward(ids, loops=options["loops"], start="keyed")
        found = model.forward(ids, loops=options["loops"], start="keyed")
    bound = 2 * float((reference - found).abs().max())
    return [
        _check(
            "decoding equals sequential decoding under the same policy in float64",
            together == [row.tokens for row in plain.rows],
            f"{len(prompts)} prompts, {TOKENS} tokens",
        ),
        _check("rows of a batch equal the rows alone in float64", together == alone, ""),
        {
            **_check("rounding of the dtype is small", bound < 1.0, f"logits within {bound:.3g}"),
            "rounding_bound": bound,
        },
    ]


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail}
