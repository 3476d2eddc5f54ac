"""Entry point: finds the subcommand, turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import harness
from harness.store.errors import Exit, HarnessError

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("listing", "plans, stage, frozen or not, runs, last verdict"),
    "explain": ("explain", "what a key of a plan means"),
    "show": ("show", "the composed plan, its digest, order, cost and power"),
    "freeze": ("freeze", "check a plan and lock it; never overwrites"),
    "run": ("run", "run a plan: verify the lock, measure, seal, analyse, report"),
    "status": ("status", "progress of a run, from its journal"),
    "verify": ("verify", "check locks, ledgers, seals and records"),
    "amend": ("amend", "change a frozen plan in the open, with a reason"),
    "deviate": ("deviate", "record that a run departed from its plan, or is given up"),
    "dare": ("dare", "cheat ten ways on a copy of the study; each is caught"),
    "analyze": ("analyze", "recompute verdicts from sealed records, or judge any --table"),
    "coverage": ("coverage", "do the intervals cover as often as they claim"),
    "report": ("report", "write a run's report again"),
    "ledger": ("ledger", "show, report, export, anchor a ledger; adopt a replication"),
    "archive": ("archive", "pack a run or a study into one file, or verify one"),
    "env": ("env", "build the environment of an arm, show how arms differ"),
    "ab": ("ab", "a sixty-second honest A/B of two programs or two arms"),
    "selftest": ("selftest", "invariants on this node, and of a plan's engines"),
    "doctor": ("doctor", "is this environment ready"),
    "ripeness": ("ripeness", "does the deepest plane suffice, and which window"),
    "train": ("train", "train an embedded model from scratch"),
}


def usage() -> str:
    """Return the help text."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: harness COMMAND [conf=PLAN] [KEY=VALUE …]   (harness COMMAND --help)",
            "",
            "Preregistered A/B experiments on inference engines. Start with",
            "  harness run conf=confirm_raven",
            "",
            "commands:",
            *lines,
            "",
            "options: --version, --debug (show tracebacks), --help",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in {"-h", "--help", "help"}:
        print(usage())
        return Exit.DONE if words else Exit.USAGE
    if words[0] == "--version":
        print(f"harness {harness.__version__}")
        return Exit.DONE
    if words[0] not in COMMANDS:
        return _fail(f"{words[0]}: no such command; see `harness --help`", Exit.USAGE)
    try:
        command = import_module(f"harness.cli.{COMMANDS[words[0]][0]}")
        return int(command.main(words[1:]))
    except HarnessError as error:
        if debug:
            raise
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command resumes", Exit.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except Exception as error:  # the last line of defence: a bug still ends in one line
        if debug:
            raise
        return _fail(_bug(error), Exit.BUG)


def _bug(error: Exception) -> str:
    import traceback

    from harness.cli.output import bug_log

    log = bug_log("".join(traceback.format_exception(error)))
    return f"a bug in harness: {type(error).__name__}: {error}; the traceback is in {log}"


def _fail(message: str, code: Exit) -> int:
    line = " ".join(message.split("\n"))
    sys.stderr.write(f"harness: {line}\n")
    return int(code)


def entry() -> None:
    """Console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
