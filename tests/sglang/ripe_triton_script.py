"""SGLang's own triton decode kernel on the patch's index tables; needs real triton.

Usage: TRITON_INTERPRET=1 python ripe_triton_script.py [cpu|cuda]. Prints JSON: the largest
difference from plain attention over the planes that the policy names, for each shape; and the
largest difference from the full cache, which must not be small.
"""

from __future__ import annotations

import json
import sys

import torch

from harness.backends.sglang.ripe.tables import Rings, flat_decode_rows
from harness.looped.policies import ripe

LOOPS, WINDOW, SLOTS, CONTEXT, SIZE = 4, 5, 4, 64, 32
LENGTHS = {1: 3, 2: 40, 3: 17}


def main(device: str) -> None:
    shapes = {"heads 4, kv heads 4": (4, 4), "heads 8, kv heads 2": (8, 2)}
    print(json.dumps({name: compare(*shape, device) for name, shape in shapes.items()}))


def compare(heads: int, groups: int, device: str) -> dict[str, float]:
    torch.manual_seed(3)
    pool = sum(LENGTHS.values()) + 10
    rings = Rings(pool, WINDOW, LOOPS, SLOTS)
    shape = (pool + rings.rows, groups, SIZE)
    keys, values = torch.randn(shape), torch.randn(shape)
    table = torch.zeros(SLOTS, CONTEXT, dtype=torch.int32)
    rows = iter((torch.randperm(pool - 1) + 1).tolist())
    planes = {slot: torch.randn(2, LOOPS + 1, n, groups, SIZE) for slot, n in LENGTHS.items()}
    for slot, length in LENGTHS.items():
        table[slot, :length] = torch.tensor([next(rows) for _ in range(length)])
    worst = apart = 0.0
    for loop in range(1, LOOPS):
        fill(rings, loop, table, planes, keys, values)
        q = torch.randn(len(LENGTHS), heads, SIZE)
        slots, lengths = torch.tensor(list(LENGTHS)), torch.tensor(list(LENGTHS.values()))
        indptr, indices = flat_decode_rows(rings, loop, slots, lengths, table)
        found = kernel(q, keys, values, indptr, indices, device)
        for place, slot in enumerate(LENGTHS):
            mixed, full = expected(q[place], planes[slot], loop)
            worst = max(worst, float((found[place] - mixed).abs().max()))
            apart = max(apart, float((found[place] - full).abs().max()))
    return {"from_policy": worst, "from_full": apart}


def fill(rings, loop, table, planes, keys, values):
    """What the pool holds while `loop` computes the last position of each request."""
    for slot, plane in planes.items():
        last = plane.shape[2] - 1
        for position in range(last + 1):
            place = int(table[slot, position])
            stored = plane[:, loop if position == last else LOOPS, position]
            keys[place], values[place] = stored[0], stored[1]
            if last - WINDOW <= position < last:
                row = int(rings.row(loop, torch.tensor(slot), torch.tensor(position)))
                keys[row], values[row] = plane[0, loop, position], plane[1, loop, position]


def expected(q, plane, loop):
    """Attention [heads, size] over the policy's planes, and over the loop's own."""
    last = plane.shape[2] - 1
    named = [
        ripe(WINDOW).plane(query=last, loop=loop, key=key, loops=LOOPS) for key in range(last + 1)
    ]
    mixed = torch.stack([plane[:, named[key], key] for key in range(last + 1)], 1)
    return attention(q, mixed), attention(q, plane[:, loop])


def attention(q, both):
    k, v = both.repeat_interleave(q.shape[0] // both.shape[2], 2).transpose(1, 2)
    weights = (q.unsqueeze(1) @ k.transpose(1, 2) * SIZE**-0.5).softmax(-1)
    return (weights @ v).squeeze(1)


def kernel(q, keys, values, indptr, indices, device):
    from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd

    rows, heads, size = q.shape
    splits = 4
    out = torch.empty_like(q, device=device)
    decode_attention_fwd(
        q.to(device),
        keys.to(device),
        values.to(device),
        out,
        indptr.to(device, torch.int32),
        indices.to(device),
        torch.empty(rows, heads, splits, size, device=device),
        torch.empty(rows, heads, splits, device=device),
        torch.full((rows,), splits, dtype=torch.int32, device=device),
        splits,
        size**-0.5,
        1.0,
        1.0,
    )
    return out.cpu()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["cpu"]))
