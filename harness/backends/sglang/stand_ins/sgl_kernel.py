"""Stands in for SGLang's compiled kernels on a CPU, where no build of them is published.

SGLang imports functions of this package by name, but calls them only for speculative decoding and
for moving cache rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    """Return a function that says what is missing, for whatever name is imported."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name}: there is no such kernel on this CPU")

    return missing
