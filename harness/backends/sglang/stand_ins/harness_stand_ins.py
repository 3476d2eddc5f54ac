"""Makes torchvision importable beside a CPU build of torch; read at every interpreter start.

The compiled half of PyPI's torchvision is built for CUDA. Only the names of two operators are
asked for, at import time, so they are declared just before that.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_OPERATORS = ("nms", "qnms")
_ARGUMENTS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    kept: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        import torch

        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in _OPERATORS:
            library.define(f"{operator}{_ARGUMENTS}")  # type: ignore[no-untyped-call]
        type(self).kept = library
        return importlib.util.find_spec(name)


sys.meta_path.insert(0, _BeforeTorchvision())
