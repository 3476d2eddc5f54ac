"""Draft reuse: where going on from the drafts' states pays, and where it does not.

    python benchmarks/looped_reuse.py [MODEL] [--batch 1 8] [--tokens 40]

Prints CPU milliseconds per token and ratios taken in one process, in alternation, beside the loop
counts; without MODEL a random model of the embedded models' shape is used, whose drafts are right
as often as its luck has it (the columns to compare share one acceptance).
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

import torch

from harness.looped import Speculative, full, generate, load, ripe
from harness.looped.config import LoopedConfig
from harness.looped.model import LoopedLM
from harness.looped.names import expected_shapes
from harness.looped.published import PUBLISHED


def random_model(width: int) -> LoopedLM:
    """A Huginn-shaped 1/2/1 model that settles, so that drafts are often right."""
    config: LoopedConfig = replace(
        PUBLISHED["huginn_0125"], n_embd=width, n_heads=4, n_kv_heads=4, head_dim=width // 4,
        intermediate=3 * width, prelude=1, core=2, coda=1, vocab=384, block_size=2048,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for name, shape in expected_shapes(config).items():
        noise = torch.randn(shape, generator=generator)
        tensors[name] = torch.ones(shape) if len(shape) == 1 else noise * shape[-1] ** -0.5
    tensors["transformer.adapter.weight"][:, :width] *= 0.3
    return LoopedLM(config, tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--draft-loops", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load(args.model) if args.model else random_model(args.width)
    prompt = torch.randint(0, 255, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    print("CPU ms per token; thrown away / reused; their ratio; drafts accepted; loop passes")
    for rows in args.batch:
        for policy in (full(), ripe(8)):
            for loops in args.draft_loops:
                modes = [Speculative(loops, 4, "policy", again) for again in (False, True)]
                times: list[list[float]] = [[], []]
                for _ in range(args.repeats):
                    for known, mode in zip(times, modes, strict=True):
                        found = generate(
                            model, [prompt] * rows, policy=policy, prefill="full_prompt",
                            decode=mode, max_tokens=args.tokens, start="keyed",
                        )  # fmt: skip
                        made = sum(len(row.tokens) for row in found.rows)
                        known.append(found.decode.cpu_ns / 1e6 / made)
                away, again = map(statistics.median, times)
                counters = found.counters
                rate = counters.accepted / max(counters.drafted, 1)
                print(
                    f"batch {rows} {policy.label:<8} d={loops}: {away:7.3f} / {again:7.3f}"
                    f"  {away / again:5.2f}x  {rate:.2f}  {counters.loops_run}"
                )


if __name__ == "__main__":
    main()
