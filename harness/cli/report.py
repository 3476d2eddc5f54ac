"""`harness report`: a run's report again, from its analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.cli.output import note
from harness.cli.parsing import parser


def main(argv: Sequence[str]) -> int:
    """Write the report and print the path of its page."""
    made = parser("report", "write a run's report again: HTML, Markdown, LaTeX, numbers")
    made.add_argument("run", metavar="RUN", help="a plan (its registered run), PLAN@N or a folder")
    args = made.parse_args(argv)
    from harness.cli.analyze import again
    from harness.cli.conclude import report
    from harness.cli.runs import find_run
    from harness.store.files import read_json
    from harness.store.paths import find_project

    project = find_project()
    paths = find_run(project, args.run)
    manifest: Any = read_json(paths.manifest)
    files = report(project, manifest["study"], paths, again(paths))
    for path in files:
        note(project.relative(path))
    return 0
