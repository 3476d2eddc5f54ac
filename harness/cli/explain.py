"""`harness explain`: what a key of a plan means, from the schema itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from harness.cli.output import console
from harness.cli.parsing import parser
from harness.store.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel


def main(argv: Sequence[str]) -> int:
    """Print every key, or one key with its type, default and meaning."""
    made = parser("explain", "what a key of a plan means")
    made.add_argument("key", nargs="?", help="such as schedule.block_items; default: all keys")
    args = made.parse_args(argv)
    from harness.plan.schema import Plan

    found = dict(keys(Plan))
    if args.key is None:
        for name, text in found.items():
            console().print(f"{name:<34} {text}", markup=False)
        return 0
    if args.key not in found:
        raise UsageError(f"{args.key}: not a key of a plan; see `harness explain`")
    below = [name for name in found if name == args.key or name.startswith(f"{args.key}.")]
    for name in below:
        console().print(f"{name:<34} {found[name]}", markup=False)
    return 0


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key below a model with its meaning, its type and its default."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = _inner(field.annotation)
        meaning = field.description or (inner.__doc__ if inner else "") or ""
        plain = not field.is_required() and field.default_factory is None
        default = f" (default {field.get_default()!r})" if plain else ""
        yield key, f"{' '.join(meaning.split())}{default if inner is None else ''}".strip()
        if inner is not None:
            yield from keys(inner, f"{key}.")


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `list[Prediction] | None`."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _inner(one))), None)
