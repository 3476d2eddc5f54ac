"""Stands in for triton (1 GB) where none of its kernels is ever launched: importable, no more.

SGLang and torch decorate functions with it, subclass and compare with its types, and ask it for a
driver at import time. A kernel that is launched all the same says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

__version__ = "0.0.0"
__path__: list[str] = []
_EAGER = ("runtime", "language", "compiler", "testing", "backends")


class _Anything:
    """A name of triton's that is only mentioned: it can be called, indexed, joined, subclassed."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(f"{self._name}.{name}")

    def __call__(self, *given: Any, **named: Any) -> Any:
        decorates = len(given) == 1 and not named and callable(given[0])
        return given[0] if decorates else self

    def __getitem__(self, _: object) -> _Anything:
        return self

    def __or__(self, _: object) -> _Anything:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False


class _NoDriver:
    @property
    def active(self) -> NoReturn:
        """Raise what triton raises without a GPU: SGLang then takes the CPU."""
        raise RuntimeError("0 active drivers ([]). There should only be one.")


class _Kernel:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.fn = function
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__

    def __getitem__(self, _: object) -> _Kernel:
        return self

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"triton kernel {self.__name__}: launched where there is no triton")


def _member(path: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "driver":
        return _NoDriver()
    if name[0].isupper():
        return type(name, (), {"__init__": lambda self, *_, **__: None})
    return _Anything(f"{path}.{name}")


def jit(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Return a kernel that cannot be launched, or a decorator that makes one."""
    return jit if function is None else _Kernel(function)


def autotune(*_: Any, **__: Any) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing."""
    return lambda kernel: kernel


heuristics = autotune


def cdiv(count: int, size: int) -> int:
    """Return how many parts of `size` hold `count`."""
    return -(-count // size)


def next_power_of_2(number: int) -> int:
    """Return the smallest power of two that is not below `number`."""
    return 1 << max(0, int(number) - 1).bit_length()


def __getattr__(name: str) -> Any:
    return _member("triton", name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("triton."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__
        module.__getattr__ = lambda name: _member(path, name)  # type: ignore[method-assign]


sys.meta_path.append(_Submodules())
# Attribute access and submodule import must give the same object.
for _name in _EAGER:
    importlib.import_module(f"triton.{_name}")
