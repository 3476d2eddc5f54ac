"""`harness verify`: locks, ledgers, seals, order and records, without GPU, git or network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import Exit, worst


def main(argv: Sequence[str]) -> int:
    """Print every finding; the exit code is the worst of them."""
    made = parser("verify", "check locks, ledgers, seals and records", json=True)
    made.add_argument("path", nargs="?", help="one lock, run or ledger; default: everything")
    args = made.parse_args(argv)
    from harness.cli.analyze import again
    from harness.prereg.verify import verify_project
    from harness.store.paths import find_project

    project = find_project()
    path = Path(args.path) if args.path else None
    findings = verify_project(project, path, recompute=again)
    strict = [finding for finding in findings if finding.code != Exit.DONE]
    code = worst([finding.code for finding in strict])
    if args.json:
        found = [{"code": int(f.code), "path": f.path, "message": f.message} for f in findings]
        print_json({"exit": int(code), "findings": found})
        return code
    for finding in strict:
        note(f"harness: {_line(finding.path, finding.message)}")
    for finding in findings:
        if finding.code == Exit.DONE:
            console().print(f"remark: {_line(finding.path, finding.message)}", markup=False)
    if code == Exit.DONE:
        console().print("verified: every lock, ledger and sealed run is as recorded; unanchored")
    return code


def _line(path: str, message: str) -> str:
    return message if message.startswith(path) else f"{path}: {message}"
