"""Scalars that YAML 1.1 reads as something else than they look like are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.store.errors import UsageError

_ODD: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"[-+]?0[0-9_]+"),
        "an octal number",
        "write it without the leading zero, or quote the value",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
        "a number to base 60",
        "write the number, or quote the value",
    ),
    (
        re.compile(r"[-+]?[0-9.]*_[0-9_.eE+-]*"),
        "a number with _",
        "write it without _, or quote the value",
    ),
    (re.compile(r"(?i:on|off|yes|no)"), "true or false", "write true or false, or quote the value"),
)


def refuse_odd_spellings(name: str, text: str) -> None:
    """Refuse plain scalars whose meaning surprises.

    Raises:
        UsageError: naming file and line, what YAML would read, and what to write.
    """
    for line, key, value in _plain_scalars(text):
        for pattern, meaning, cure in _ODD:
            if pattern.fullmatch(value):
                raise UsageError(
                    f"{name}: line {line}: {key}: {value}: YAML reads {meaning}; {cure}"
                )


def _plain_scalars(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and text of every scalar without quotes; a key is its own."""
    import yaml

    try:
        waiting = [(yaml.compose(text, Loader=yaml.SafeLoader), "")]
    except yaml.YAMLError:
        return  # composing the plan names the line
    while waiting:
        node, key = waiting.pop()
        if isinstance(node, yaml.ScalarNode) and node.style is None:
            yield node.start_mark.line + 1, key or node.value, node.value
        elif isinstance(node, yaml.MappingNode):
            for left, right in node.value:
                below = f"{key}.{left.value}" if key else str(left.value)
                waiting += [(left, below), (right, below)]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(one, key) for one in node.value]
