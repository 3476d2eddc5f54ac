"""`harness amend`: change what a frozen plan predicts, in the open and with a reason."""

from __future__ import annotations

from collections.abc import Sequence

from harness.cli.output import console
from harness.cli.parsing import parse_mixed, parser, utf8, words_argument
from harness.store.errors import Exit, UsageError


def main(argv: Sequence[str]) -> int:
    """Record that a frozen plan is from now on what its file says."""
    made = parser("amend", "record a change of a frozen plan; edit conf/PLAN.yaml first")
    made.add_argument(
        "--reason", type=utf8, required=True, help="shown with every verdict that it touches"
    )
    words_argument(made)
    args = parse_mixed(made, argv)
    from harness.plan.compose import compose
    from harness.plan.words import parse_words
    from harness.prereg.amend import amend
    from harness.prereg.amendments import SEEN, path_of, rule
    from harness.store.paths import find_project

    words = parse_words(args.words)
    if words.overrides:
        raise UsageError(
            f"{', '.join(words.overrides)}: an amended plan is its file; edit the file"
        )
    project = find_project()
    amended = amend(project, compose(project, words.plan), args.reason)
    out, content = console(), amended.content
    out.print(f"amended after {SEEN[content.access]}: ledger record {amended.record}", markup=False)
    for change in content.changes:
        text = f"  {change.key}: changed"
        if change.key.startswith("predictions."):
            text = f"  {change.key}: {rule(change.before)} → {rule(change.after)}"
        out.print(text, markup=False)
    name = project.relative(path_of(project, content.plan, content.number))
    if amended.clean:
        out.print(f"clean: {name}", markup=False)
        return Exit.DONE
    out.print(
        f"deviated: {name}; the original rules decide, the amended ones are shown beside them",
        markup=False,
    )
    return Exit.DEVIATED
