"""Decoding beside its floor: the same matrix products without anything around them.

    python benchmarks/decode.py [MODEL] [--batch 1 4] [--tokens 48]

Prints CPU milliseconds per token and ratios taken in one process, in alternation, because absolute
times on a shared machine mean little.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from harness.looped import Sequential, Speculative, full, generate, load, ripe
from harness.looped.model import LoopedLM


def floor(model: LoopedLM, rows: int, loops: int) -> Callable[[], None]:
    """Return a function that does the matrix products of one full-depth pass over `rows` tokens."""
    weights = model.tensors
    groups = {"prelude": 1, "core_block": loops, "coda": 1}
    products = []
    for group, repeats in groups.items():
        names = [n for n in weights if f".{group}." in n and weights[n].dim() == 2]
        products += [weights[name] for name in names] * repeats
    products += [weights["transformer.adapter.weight"]] * loops
    products.append(weights["transformer.wte.weight"])
    inputs = {width: torch.randn(rows, width) for width in {w.shape[1] for w in products}}

    def run() -> None:
        with torch.inference_mode():
            for weight in products:
                F.linear(inputs[weight.shape[1]], weight)

    return run


def cpu_ms(run: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - began) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="tiny_ripe")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load(args.model)
    loops = model.config.loops
    prompt = torch.randint(0, 255, (64,), generator=torch.Generator().manual_seed(1)).tolist()
    print(f"{args.model}, {loops} loops, one thread, CPU ms per token (median of {args.repeats})")
    for rows in args.batch:
        bare = floor(model, rows, loops)
        arms = {
            "full, sequential": (full(), Sequential()),
            "ripe(8), sequential": (ripe(8), Sequential()),
            "ripe(8), speculative 2x4": (ripe(8), Speculative(2, 4)),
        }
        times: dict[str, list[float]] = {name: [] for name in (*arms, "matrix products")}
        for _ in range(args.repeats):
            times["matrix products"].append(cpu_ms(bare) / rows)
            for name, (policy, decode) in arms.items():
                found = generate(
                    model,
                    [prompt] * rows,
                    policy=policy,
                    prefill="full_prompt",
                    decode=decode,
                    max_tokens=args.tokens,
                )
                made = sum(len(row.tokens) for row in found.rows)
                times[name].append(found.decode.cpu_ns / 1e6 / made)
        base = statistics.median(times["full, sequential"])
        least = statistics.median(times["matrix products"])
        print(f"\nbatch {rows}")
        for name, values in times.items():
            value = statistics.median(values)
            print(
                f"  {name:<26} {value:8.3f} ms   {base / value:5.2f}x full   "
                f"{value / least:6.2f}x the products"
            )


if __name__ == "__main__":
    main()
