"""`harness verify`: locks, ledgers, seals, order and records, without GPU, git or network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.anchor import Wanted, add_options, saved_heads, standings, wanted
from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import Exit, HarnessError, worst

if TYPE_CHECKING:
    from harness.prereg.findings import Finding
    from harness.store.paths import Project


def main(argv: Sequence[str]) -> int:
    """Print every finding; the exit code is the worst of them."""
    made = parser("verify", "check locks, ledgers, seals and records", json=True)
    made.add_argument("path", nargs="?", help="one lock, run or ledger; default: everything")
    add_options(made)
    args = made.parse_args(argv)
    from harness.cli.analyze import again
    from harness.prereg.verify import verify_project
    from harness.store.paths import find_project

    if args.path and Path(args.path).is_file() and args.path.endswith(".tar"):
        from harness.cli.archive import main as archive

        return archive(["verify", args.path])
    project = find_project()
    path, asked = Path(args.path) if args.path else None, wanted(args)
    heads = {study: head for study, (head, _) in saved_heads(asked).items()}
    findings = verify_project(project, path, heads=heads, recompute=lambda run: again(run, project))
    anchor, found = _anchoring(project, asked, findings, args.require_anchor)
    findings += found
    code = worst([finding.code for finding in findings if not finding.remark])
    if args.json:
        listed = [{"code": int(f.code), "path": f.path, "message": f.message} for f in findings]
        print_json({"exit": int(code), "findings": listed, "anchor": anchor})
        return code
    show(findings)
    if code == Exit.DONE:
        console().print(_verdict(project, anchor), markup=False)
    return code


def show(findings: Sequence[Finding]) -> None:
    """Print what is wrong to standard error, then the remarks."""
    for finding in findings:
        if not finding.remark:
            note(f"harness: {_line(finding.path, finding.message)}")
    remarks = [finding for finding in findings if finding.remark]
    code = [finding for finding in remarks if finding.path.startswith("harness/")]
    for finding in remarks:
        if finding not in code:
            console().print(f"remark: {_line(finding.path, finding.message)}", markup=False)
    if code:
        files = len({finding.path for finding in code})
        console().print(
            f"remark: {files} code files are not those of a lock whose run is sealed: a later "
            "version; --json names them"
        )


def _anchoring(
    project: Project, asked: Wanted, findings: Sequence[Finding], required: bool
) -> tuple[str, list[Finding]]:
    """Return the words for the last line, and a finding per plan that lacks a required anchor."""
    from harness.prereg.findings import Finding, from_error
    from harness.prereg.verify import studies

    if not asked.any or any(one.code in (Exit.CHANGED, Exit.INCOMPLETE) for one in findings):
        return "unanchored", []
    texts: list[str] = []
    missing: list[Finding] = []
    for study in studies(project):
        path = project.relative(project.ledger(study))
        try:
            found = standings(project, study, asked)
        except HarnessError as error:
            missing.append(from_error(path, error))
            continue
        for plan, one in found.items():
            texts.append(f"{plan} {one.text}")
            if required and not one.anchored:
                missing.append(Finding(Exit.UNANCHORED, path, f"{path}: {plan}: {one.text}"))
    if required and not texts and not missing:
        missing.append(Finding(Exit.UNANCHORED, "ledgers", "ledgers: nothing that is anchored"))
    return "; ".join(texts) or "unanchored", missing


def _verdict(project: Project, anchor: str) -> str:
    """Return the last line; where there is nothing, it says so and claims nothing."""
    parts = ("preregistrations", "ledgers", "runs")
    if not any(any((project.root / part).glob("*/*")) for part in parts):
        return "nothing to verify: this project has no lock, no ledger and no run"
    return f"verified: every lock, ledger and sealed run is as recorded; {anchor}"


def _line(path: str, message: str) -> str:
    return message if message.startswith(path) else f"{path}: {message}"
