"""What must hold of a looped decoder on this node, in float64, and how far its dtype rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import eq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.backends.looped_arm import Arm
    from harness.looped.model import LoopedLM

TOKENS = 12


def checks(model: LoopedLM, prompts: Sequence[Sequence[int]], arm: Arm) -> list[dict[str, Any]]:
    """Return the checks: decoding is exact where it says so, rows are independent, rounding small.

    An arm's draws are left out: they change with the decoder, their distribution does not.
    """
    import torch

    from harness.looped.generation import Sequential
    from harness.looped.model import LoopedLM

    exact = LoopedLM(model.config, {name: t.double() for name, t in model.tensors.items()})
    short = arm.greedy(max_tokens=TOKENS)
    together = _tokens(exact, prompts, short)
    plain = _tokens(exact, prompts, replace(short, decode=Sequential()))
    alone = [row for prompt in prompts for row in _tokens(exact, [prompt], short)]
    longest = max(prompts, key=len)
    ids = torch.tensor([list(longest)], device=model.device)
    with torch.inference_mode():
        reference = exact.forward(ids, loops=arm.loops, start="keyed")
        found = model.forward(ids, loops=arm.loops, start="keyed")
    bound = 2 * float((reference - found).abs().max())
    return [
        _agreement(arm, together, plain),
        _check("rows of a batch equal the rows alone in float64", together == alone, ""),
        {
            **_check("rounding of the dtype is small", bound < 1.0, f"logits within {bound:.3g}"),
            "rounding_bound": bound,
        },
    ]


def _tokens(model: LoopedLM, prompts: Sequence[Sequence[int]], arm: Arm) -> list[tuple[int, ...]]:
    return [row.tokens for row in arm.run(model, prompts)[0].rows]


def _agreement(
    arm: Arm, found: list[tuple[int, ...]], plain: list[tuple[int, ...]]
) -> dict[str, Any]:
    """Equality where it must hold; the share of equal texts where the decoder approximates."""
    if arm.is_exact:
        return _check(
            "decoding equals sequential decoding under the same policy in float64",
            found == plain,
            f"{len(found)} prompts, {TOKENS} tokens",
        )
    same = sum(map(eq, found, plain))
    return _check(
        "this decoder approximates sequential decoding",
        True,
        f"{same} of {len(found)} texts equal over {TOKENS} tokens; reported, not required",
    )


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail}
