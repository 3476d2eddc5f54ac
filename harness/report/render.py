"""Templates to bytes: every output expression is escaped for the format it lands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from markupsafe import Markup

from harness.report.escape import markdown, one_line, tex


def _html(value: object) -> object:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_FINALIZERS: dict[str, Callable[[object], object]] = {"html": _html, "md": markdown, "tex": tex}


@cache
def _environment(kind: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("harness.report", "templates"),
        autoescape=True,
        finalize=_FINALIZERS[kind],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, values: Mapping[str, object]) -> bytes:
    """Return the rendered template; its name ends in `.html`, `.md` or `.tex`."""
    text: str = _environment(template.rsplit(".", 1)[-1]).get_template(template).render(values)
    return text.encode()


def written(files: Mapping[str, bytes], out: Any) -> list[Any]:
    """Write derived files into a folder and return their paths."""
    from harness.store.files import replace

    for name, data in files.items():
        replace(out / name, data)
    return [out / name for name in files]
