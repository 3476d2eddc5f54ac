"""`harness archive pack / verify`: one deterministic file, verified at both ends."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.output import console
from harness.cli.parsing import parser
from harness.store.errors import Exit, IncompleteError, UsageError, worst

if TYPE_CHECKING:
    from harness.prereg.archive import Subject
    from harness.store.paths import Project, RunPaths


def main(argv: Sequence[str]) -> int:
    """Pack a run or a study, or verify an archive without git, GPU or network."""
    made = parser("archive", "pack a run or a study into one file, or verify one")
    made.add_argument("action", choices=["pack", "verify"])
    made.add_argument("subject", metavar="RUN|STUDY|FILE")
    made.add_argument("--output", metavar="FILE", help="pack: default NAME.tar here")
    args = made.parse_args(argv)
    return _verify(Path(args.subject)) if args.action == "verify" else _pack(args)


def _again(project: Project, run: RunPaths) -> dict[str, Any]:
    from harness.cli.analyze import again

    return again(run, project)


def _pack(args: Any) -> int:
    from harness.prereg.archive import pack_subject
    from harness.store.digests import sha256_file
    from harness.store.paths import find_project

    project = find_project()
    subject = _subject(project, args.subject)
    path = Path(args.output or subject.file_name)
    manifest = pack_subject(project, subject, path, _again)
    out = console()
    out.print(f"{path}: {len(manifest['members'])} files, sha256 {sha256_file(path)}", markup=False)
    head = manifest["ledger_head"]
    out.print(f"ledger head: record {head['count']}, {head['digest']}", markup=False)
    return Exit.DONE


def _subject(project: Project, name: str) -> Subject:
    from harness.cli.deviate import run_name
    from harness.ledger.chain import Chain
    from harness.ledger.records import history
    from harness.prereg.archive import Subject
    from harness.prereg.verify import studies

    known = studies(project)
    if name in known:
        return Subject(name)
    plan, run_id = run_name(project, name)
    for study in known:
        if history(Chain(project.ledger(study))).frozen(plan):
            return Subject(study, plan, run_id)
    raise UsageError(f"{name}: no ledger knows its plan; only what was frozen is archived")


def _verify(path: Path) -> int:
    from harness.cli.verify import show
    from harness.prereg.archive import check_archive

    if not path.is_file():
        raise IncompleteError(f"{path}: missing; expected an archive")
    with tempfile.TemporaryDirectory(prefix="harness-archive-") as folder:
        findings = check_archive(path, Path(folder).resolve(), _again)
    show(findings)
    code = worst([finding.code for finding in findings if not finding.remark])
    if code == Exit.DONE:
        console().print(f"verified: {path.name} holds what was packed; unanchored", markup=False)
    return code
