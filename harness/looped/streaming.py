"""Replays and probes as tables, handed to a writer piece by piece.

A table is a mapping from column names to numpy arrays of one length; a two-dimensional array is a
column of fixed-size lists. The writer decides where it goes, a Parquet file for instance; nothing
here keeps more than one text in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.looped.model import CORE, LoopedLM
from harness.looped.policies import Policy
from harness.looped.probes import probe
from harness.looped.replaying import SEQUENTIAL, divergence, policy_logits
from harness.looped.ripening import plane_distances
from harness.looped.start import ZERO

Table = Mapping[str, NDArray[Any]]
Write = Callable[[Table], None]


def stream_replay(
    model: LoopedLM,
    texts: Iterable[Sequence[int]],
    policies: Sequence[Policy],
    write: Write,
    *,
    mode: str = SEQUENTIAL,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
    reference: LoopedLM | None = None,
) -> None:
    """One table for each text and policy.

    Columns: text and position (int32), policy (string), kl (float64, nats, reference || policy),
    reference and chosen (int32, greedy tokens).
    """
    count = model.loops(loops)
    for number, text in enumerate(texts):
        ids = torch.tensor([list(text)], device=model.device)
        with torch.inference_mode():
            expected = (reference or model).forward(ids, loops=count, start=start, seed=seed)
        for policy in policies:
            found = policy_logits(
                model, ids, policy=policy, mode=mode, loops=count, start=start, seed=seed
            )
            write(
                {
                    **_places(number, len(text)),
                    "policy": np.full(len(text), policy.label),
                    "kl": divergence(expected, found)[0].cpu().numpy(),
                    "reference": expected[0].argmax(-1).cpu().numpy().astype(np.int32),
                    "chosen": found[0].argmax(-1).cpu().numpy().astype(np.int32),
                }
            )


def stream_states(
    model: LoopedLM,
    texts: Iterable[Sequence[int]],
    policy: Policy,
    write: Write,
    *,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
) -> None:
    """One table for each text, kind, loop and layer, in the order of computation.

    Columns: text and position (int32), kind (string), loop and layer (int16), state (float32 lists
    of the model's width), and for the core key and value (float32 lists, all KV heads).
    """
    for number, text in enumerate(texts):
        ids = torch.tensor([list(text)], device=model.device)
        seen = probe(model, ids, policy=policy, loops=loops, start=start, seed=seed)
        for (kind, loop, layer), state in seen.states.items():
            table: dict[str, NDArray[Any]] = {
                **_places(number, len(text)),
                "kind": np.full(len(text), kind),
                "loop": np.full(len(text), loop, np.int16),
                "layer": np.full(len(text), layer, np.int16),
                "state": _floats(state[0]),
            }
            if kind == CORE:
                k, v = seen.planes[kind, loop, layer]
                table |= {"key": _floats(k[0].flatten(1)), "value": _floats(v[0].flatten(1))}
            write(table)


def stream_distances(
    model: LoopedLM,
    texts: Iterable[Sequence[int]],
    write: Write,
    *,
    loops: int | None = None,
    start: str = ZERO,
    seed: int = 0,
) -> None:
    """One table for each text: every plane's relative distance to the plane recorded at 2R.

    Columns: text and position (int32), loop (int16), distance (float64, mean over core layers).
    """
    count = model.loops(loops)
    for number, text in enumerate(texts):
        ids = torch.tensor([list(text)], device=model.device)
        distances = plane_distances(model, ids, count, start=start, seed=seed)
        places = _places(number, len(text))
        write(
            {
                **{name: np.tile(column, count) for name, column in places.items()},
                "loop": np.repeat(np.arange(1, count + 1, dtype=np.int16), len(text)),
                "distance": distances.flatten().cpu().numpy(),
            }
        )


def _places(text: int, length: int) -> dict[str, NDArray[Any]]:
    return {
        "text": np.full(length, text, np.int32),
        "position": np.arange(length, dtype=np.int32),
    }


def _floats(x: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = x.float().cpu().numpy()
    return found
