"""Reads arrays from outside: numbers that are finite, shapes that agree, one clear line if not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.errors import AnalysisError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

EXACT_INTEGERS = 2.0**53
"""Integers up to here are exact in float64."""

LARGEST = 1e140
"""Larger values are refused, so that sums of squares cannot overflow."""

_WIDE = 1024


def numbers(values: npt.ArrayLike, name: str, *, ndim: int = 1) -> npt.NDArray[Any]:
    """Return finite real numbers as an array of bools, integers or float64, in their own kind.

    Integers stay integers, so that nanoseconds keep their last digit.
    """
    array = real_array(values, name, ndim=ndim)
    check_finite(array, peaks(array), name)
    return array


def real_array(values: npt.ArrayLike, name: str, *, ndim: int) -> npt.NDArray[Any]:
    """Return a non-empty array of real numbers that need not be finite."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise AnalysisError(f"{name}: has masked entries; drop their pairs first")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise AnalysisError(f"{name}: not a rectangular array of numbers") from error
    if array.ndim != ndim:
        raise AnalysisError(f"{name}: has {array.ndim} dimensions, needs {ndim}")
    if array.size == 0:
        raise AnalysisError(f"{name}: is empty")
    if array.dtype.kind not in "biuf":
        raise AnalysisError(f"{name}: holds {array.dtype}, needs real numbers")
    return array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array


def peaks(array: npt.NDArray[Any]) -> Floats:
    """Return max|x| of each column, shape (m,), without copying the array; NaN if there is one."""
    table = array.reshape(len(array), -1)
    columns = table.shape[1]
    fold = max(1, _WIDE // columns)
    folded = len(table) // fold * fold if table.flags.c_contiguous else 0
    found: Floats = np.zeros(columns)
    if folded:  # narrow rows are slow to reduce, so that several are read as one wide row
        wide = _edges(table[:folded].reshape(-1, fold * columns))
        found = wide.reshape(fold, columns).max(axis=0)
    return np.maximum(found, _edges(table[folded:])) if folded < len(table) else found


def _edges(table: npt.NDArray[Any]) -> Floats:
    with np.errstate(invalid="ignore"):
        low, high = table.min(axis=0), table.max(axis=0)
    return np.asarray(np.maximum(-low.astype(np.float64), high.astype(np.float64)))


def check_finite(array: npt.NDArray[Any], peak: Floats, name: str) -> None:
    """Refuse NaN, infinities and values whose squares would overflow."""
    if np.all(peak <= LARGEST):
        return
    flat = array.ravel()
    bad = ~(np.abs(flat.astype(np.float64)) <= LARGEST)
    where = int(np.flatnonzero(bad)[0])
    value = float(flat[where])
    reason = "not finite" if not np.isfinite(value) else f"beyond ±{LARGEST:g}"
    raise AnalysisError(f"{name}: entry {where} is {value:g}, {reason}")


def floats(values: npt.ArrayLike, name: str, *, ndim: int = 1) -> Floats:
    """Return finite real numbers as float64."""
    return numbers(values, name, ndim=ndim).astype(np.float64, copy=False)


def counts(values: npt.ArrayLike, name: str) -> Integers:
    """Return whole numbers ≥ 0 (a 1-d array), below 2^53."""
    array = floats(values, name)
    if np.any(array < 0) or np.any(array != np.floor(array)) or np.any(array > EXACT_INTEGERS):
        raise AnalysisError(f"{name}: needs whole numbers of at least 0")
    return array.astype(np.int64)


def count(value: object, name: str) -> int:
    """Return one whole number ≥ 0."""
    return int(counts(_scalar(value, name), name)[0])


def whole(value: object, name: str, low: int, high: int) -> int:
    """Return one whole number between two bounds."""
    number = count(value, name)
    if not low <= number <= high:
        raise AnalysisError(f"{name}: {number} is outside {low} … {high}")
    return number


def real(value: object, name: str) -> float:
    """Return one finite real number."""
    return float(floats(_scalar(value, name), name)[0])


def above_zero(value: object, name: str) -> float:
    """Return one real number above 0, large enough to divide by."""
    number = real(value, name)
    if number < 1 / LARGEST:
        raise AnalysisError(f"{name}: {number} is not above 0")
    return number


def listed(values: object, name: str) -> list[Any]:
    """Return the entries of a sequence or array as a list."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise AnalysisError(f"{name}: needs one entry per row, not {type(values).__name__}")
    if np.ma.is_masked(values):
        raise AnalysisError(f"{name}: has masked entries; drop their pairs first")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise AnalysisError(f"{name}: has {values.ndim} dimensions, needs 1")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def binary(values: npt.ArrayLike, name: str) -> Booleans:
    """Return answers that are right (1) or wrong (0) as booleans."""
    array = numbers(values, name)
    if not np.all((array == 0) | (array == 1)):
        raise AnalysisError(f"{name}: needs 0 or 1 in every row")
    return array.astype(np.bool_)


def same_length(**arrays: npt.NDArray[Any]) -> int:
    """Return the common length of the named arrays."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise AnalysisError(f"lengths differ: {listed}")
    return next(iter(lengths.values()))


def choice(value: object, allowed: tuple[str, ...], name: str) -> None:
    """Refuse a word that is not one of the allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise AnalysisError(f"{name}: {value!r} is unknown; choose from {', '.join(allowed)}")


def _scalar(value: object, name: str) -> npt.NDArray[Any]:
    if not isinstance(value, int | float | np.number | np.bool_):
        raise AnalysisError(f"{name}: needs one number, not {type(value).__name__}")
    return np.atleast_1d(np.asarray(value))
