"""Muon for matrices, AdamW for the rest, over float32 masters of bfloat16 working weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from harness.looped.errors import WeightsError
from harness.looped.recipes import Recipe


class Optimiser:
    """Holds the masters and the working copies that the model computes with."""

    def __init__(self, recipe: Recipe, start: Mapping[str, Tensor]) -> None:
        self.master = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
        self.working = {
            name: tensor.detach().to(torch.bfloat16).requires_grad_()
            for name, tensor in self.master.items()
        }
        self._clip = recipe.clip
        self._caps = {n: cap for n in self.master if (cap := recipe.cap(n)) is not None}
        self._learned = [n for n in self.master if not recipe.is_frozen(n)]
        matrices = [n for n in self._learned if _is_matrix(n, self.master[n])]
        core_gains = [n for n in self.master if ".core_block." in n and ".norm_" in n]
        others = [n for n in self._learned if n not in matrices and n not in core_gains]
        free = [self.master[n] for n in matrices if n not in self._caps]
        self._muon = torch.optim.Muon(
            [
                {"params": free},
                *(self._capped_group(recipe, n) for n in matrices if n in self._caps),
            ],
            lr=recipe.matrix_lr,
            weight_decay=recipe.matrix_decay,
            momentum=0.95,
        )
        # Core gains learn slowly: at the full rate a gain can reach zero and never come back.
        self._adam = torch.optim.AdamW(
            [
                {"params": [self.master[n] for n in others], "lr": recipe.vector_lr},
                {
                    "params": [self.master[n] for n in core_gains if not recipe.is_frozen(n)],
                    "lr": recipe.core_gain_lr,
                },
            ],
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        self._core_gains = core_gains
        self._both: tuple[torch.optim.Optimizer, ...] = (self._muon, self._adam)
        self._rates = [[group["lr"] for group in opt.param_groups] for opt in self._both]
        self._constrain()

    def apply(self, rate: float) -> None:
        """Clip, step at `rate` times the base learning rates, refresh the working copies."""
        for name, copy in self.working.items():
            assert copy.grad is not None
            self.master[name].grad = copy.grad.float()
            copy.grad = None
        learned = [self.master[name] for name in self._learned]
        torch.nn.utils.clip_grad_norm_(learned, self._clip)
        for opt, base in zip(self._both, self._rates, strict=True):
            for group, lr in zip(opt.param_groups, base, strict=True):
                group["lr"] = lr * rate
            opt.step()
        self._constrain()

    def _capped_group(self, recipe: Recipe, name: str) -> dict[str, Any]:
        """Muon moves a matrix by lr times the root of its smaller side, in Frobenius norm."""
        parameter = self.master[name]
        lr = recipe.cap_step * self._caps[name] / min(parameter.shape) ** 0.5
        return {"params": [parameter], "lr": min(lr, recipe.matrix_lr)}

    @torch.no_grad()
    def _constrain(self) -> None:
        """Hold the caps and refresh the working copies."""
        for name, cap in self._caps.items():
            self.master[name].mul_(min(1.0, cap / float(self.master[name].norm())))
        for name, copy in self.working.items():
            copy.copy_(self.master[name])

    def smallest_core_gain(self) -> float:
        """The smallest mean gain of the core's norms; near zero means a dead path."""
        return min(float(self.master[n].detach().abs().mean()) for n in self._core_gains)

    def save(self, path: Path, meta: dict[str, str]) -> None:
        """Write masters and optimiser state to one safetensors file, atomically."""
        tensors = {f"master/{n}": t.detach() for n, t in self.master.items()}
        for name, parameter in self.master.items():
            for opt in self._both:
                for key, value in opt.state.get(parameter, {}).items():
                    tensors[f"state/{name}/{key}"] = torch.as_tensor(value)
        partial = path.with_suffix(".partial")
        save_file(tensors, str(partial), metadata=meta)
        partial.replace(path)

    def load(self, path: Path) -> dict[str, str]:
        """Read what `save` wrote and return its notes. Raises WeightsError on other shapes."""
        with safe_open(str(path), framework="pt") as source:
            meta: dict[str, str] = source.metadata()
            for key in source.keys():  # noqa: SIM118
                kind, name = key.split("/")[:2]
                parameter = self.master.get(name)
                if parameter is None:
                    raise WeightsError(f"{path}: {key}: unknown tensor; start a fresh folder")
                value = source.get_tensor(key)
                if kind == "master":
                    with torch.no_grad():
                        parameter.copy_(value)
                        self.working[name].copy_(value)
                else:
                    self._owner(parameter).state[parameter][key.split("/")[2]] = value
        return meta

    def _owner(self, parameter: Tensor) -> torch.optim.Optimizer:
        owned = {id(p) for group in self._muon.param_groups for p in group["params"]}
        return self._muon if id(parameter) in owned else self._adam


def _is_matrix(name: str, tensor: Tensor) -> bool:
    return tensor.ndim == 2 and "wte" not in name and "lm_head" not in name
