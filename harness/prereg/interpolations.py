"""A plan must mean the same everywhere and always, so values from outside of it are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.store.errors import UsageError
from harness.store.files import read
from harness.store.paths import Project

_PURE_RESOLVERS = frozenset({"oc.select", "oc.create", "oc.dict.keys", "oc.dict.values"})


def refuse_interpolations(project: Project, sources: Iterable[Path]) -> None:
    """Refuse values that depend on the machine or the moment, read as YAML reads them."""
    for source in sources:
        for number, text in _scalars(project, source):
            found = volatile(text)
            if found:
                raise UsageError(
                    f"{project.relative(source)}: line {number}: {found} depends on the machine or "
                    "the moment, so the plan would not stay the same; write the value"
                )


def _scalars(project: Project, source: Path) -> Iterator[tuple[int, str]]:
    import yaml

    try:
        waiting = [yaml.compose(read(source).decode("utf-8"), Loader=yaml.SafeLoader)]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{project.relative(source)}: not YAML in UTF-8: {error}") from error
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            yield node.start_mark.line + 1, node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def volatile(text: str) -> str | None:
    """Return the first interpolation in a value that is not a plain reference within the plan.

    A resolver's name can be put together from pieces (`${oc.${x}:HOME}`), so names in pieces are
    refused like all resolvers but the pure ones.

    >>> volatile("${model.name}"), volatile("${ now:%Y}"), volatile("${hydra.job.name}")
    (None, '${ now:', '${hydra.job.name}')
    """
    for match in re.finditer(r"\$\{([^:}]*)([:}]?)", text):
        name, resolves = match.group(1).strip(), match.group(2) == ":"
        pure = name in _PURE_RESOLVERS if resolves else not re.match(r"hydra\b|.*\$", name)
        if not pure:
            return match.group(0)
    return None
