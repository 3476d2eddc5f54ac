"""Writes the table of docs/tamper-cases.md: `python -m tests.tamper.table`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "tamper-cases.md"
MARK = "<!-- table -->\n"

CASES = {
    1: "one byte of a locked config: 3, and `run` starts nothing",
    2: "config and lock rewritten together: 3, the ledger disagrees",
    3: "everything rewritten: 0 but unanchored; 3 with a saved head; 7 where one is required",
    4: "freezing again: 5, the old lock stays, no `--force`",
    5: "amended after results were opened: 6, both rules with their times",
    6: "lock cut, emptied, deleted: 3 or 4; `freeze` 5, never a new lock",
    7: "eight freezers of one name: one 0, seven 5",
    8: "disk full while freezing: 10, no half lock; then 0",
    9: "`1`, `1.0`, `1e0`, `1.00`: one hash in a float field, only `1` in an int field",
    10: "`010`, `1:30`, `on`, `1_000`, `.nan`, `.inf`, `1e400`: 2; `-0.0` is folded into `0`",
    11: "a key twice, keys that collapse: 2 in a plan, 3 in a sealed file",
    12: "values of the machine or the moment: 2 at freeze; otherwise one digest everywhere",
    13: "NFD, a byte order mark, a lone surrogate: 2; U+2028 and newlines are kept",
    14: "CRLF: 3 with the hint; the freeze writes `-text` rules for git",
    15: "a comment or a blank in a locked plan: 3, comment or layout only",
    16: "one digit in any record: 3 with its number",
    17: "a removed tail: 3, appending 5; a missing ledger: 4 (3 while its head is there)",
    18: "a record cut anywhere: 4, appending 5; an explicit repair shows for ever (6)",
    19: "four writers and `kill -9`: contiguous and linked",
    20: "a record copied, swapped, with a field more or a key twice: 3",
    21: "a result edited, with its table, or arms swapped: 3",
    22: "another order or seed, a task dropped or doubled: 5 when asked for, 3 or 4 when edited",
    23: "an item in two partitions: 2; a selection from a confirm run: 2; opened items: 5",
    24: "a second run: a replication; after a crash: resumed; a deleted run: 4",
    25: "patch, package, device or code changed: 3 before the run; 3 within it",
    26: "a metric that is no number: 3, never a pass; failed answers are counted; two nodes: 5",
    27: "an unscored pass promoted: 3; a report edited: 3, naming the cell",
    28: "rules that cannot turn, claims without a margin, fitted regions: 2, or flagged",
    29: "clocks set back and ahead: named, and decide nothing; a run before its lock: 3",
    30: "time, place and commit of a lock edited: 3; a commit without the plan: 3",
    31: "plan and results in one commit: no evidence of order, 7 where an anchor is required",
    32: "an archive flipped, cut, with members dropped, added, replaced: 3 or 4; odd files: 2",
    33: "no git, GPU, network; another locale, umask, folder: 0; mistakes end in one line",
    34: "every lock on a question is listed, with its outcome or as never run",
    35: "the runner killed: its workers stop, the run is aborted, nothing is scored",
}


def tests() -> dict[int, list[str]]:
    """Return case → the tests that are named after it."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        for name in re.findall(r"^def (test_t(?:\d\d)_\w+)", path.read_text(), re.MULTILINE):
            found[int(name[6:8])].append(f"`{path.stem}::{name}`")
    return found


def table() -> str:
    """Return the table."""
    found = tests()
    rows = [
        f"| T{number:02} | {text} | {'<br>'.join(found[number])} |"
        for number, text in CASES.items()
    ]
    return "\n".join(
        ["| case | outcome | held by, in `tests/tamper/` |", "| --- | --- | --- |", *rows]
    )


if __name__ == "__main__":
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{head}{MARK}\n{table()}\n", encoding="utf-8")
