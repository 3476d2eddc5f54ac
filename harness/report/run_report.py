"""The report of one run, as HTML, Markdown, LaTeX, numbers and figures."""

from __future__ import annotations

from pathlib import Path

from harness.report.arms import arms_grid
from harness.report.bars import bars_grid, bars_note, panels
from harness.report.costs import costs_grid, regime
from harness.report.effects import places_grid
from harness.report.figures import figures
from harness.report.locked import locked_grid, rule_words, selection_grid
from harness.report.numbers import numbers_json, numbers_tex
from harness.report.render import render, written
from harness.report.scope import card_facts, scope_facts, standing
from harness.report.sentences import sentences
from harness.report.threats import threats
from harness.report.verdicts import outcome, verdict_grid, verdicts
from harness.store.canonical import Json


def render_run_report(
    analysis: Json,
    plan_json: Json,
    *,
    model_card: Json | None = None,
    lock: Json | None = None,
    ledger_head: Json | None = None,
) -> dict[str, bytes]:
    """Return every file of the report by name; the same input gives the same bytes."""
    drawings = figures(analysis, plan_json)
    values = _values(analysis, plan_json, model_card, lock, ledger_head) | {"figures": drawings}
    files = {name: render(name, values) for name in ("report.html", "report.md", "report.tex")}
    files["numbers.json"] = numbers_json(analysis, plan_json)
    files["numbers.tex"] = numbers_tex(analysis, plan_json)
    for figure in drawings:
        if not figure.missing:
            files[f"figure_{figure.name}.svg"] = figure.svg
            files[f"figure_{figure.name}.pdf"] = figure.pdf
    return files


def write_run_report(
    analysis: Json,
    plan_json: Json,
    out: Path,
    *,
    model_card: Json | None = None,
    lock: Json | None = None,
    ledger_head: Json | None = None,
) -> list[Path]:
    """Write the report into `out` and return its files.

    Raises:
        StorageError: the disk refused.
    """
    files = render_run_report(
        analysis, plan_json, model_card=model_card, lock=lock, ledger_head=ledger_head
    )
    return [Path(path) for path in written(files, out)]


def _values(
    analysis: Json,
    plan_json: Json,
    card: Json | None,
    lock: Json | None,
    head: Json | None,
) -> Json:
    found = verdicts(analysis, plan_json)
    compared = panels(analysis)
    plan = str(analysis.get("plan") or plan_json.get("plan") or "plan not recorded")
    return {
        "plan": plan,
        "study": str(plan_json.get("study") or "study not recorded"),
        "title": str(plan_json.get("title") or plan),
        "run_id": str(analysis.get("run_id") or "not recorded"),
        "standing": standing(analysis),
        "outcome": outcome(found),
        "panels": compared,
        "bars": bars_grid(compared),
        "bars_note": bars_note(compared),
        "sentences": sentences(analysis, plan_json, lock, found),
        "places": places_grid(analysis),
        "verdicts": verdict_grid(found),
        "scope": scope_facts(analysis, plan_json, lock),
        "card": card_facts(card),
        "arms": arms_grid(analysis, plan_json),
        "costs": costs_grid(analysis),
        "regime": regime(analysis),
        "threats": threats(analysis, found),
        "locked": locked_grid(analysis, lock, head),
        "selection": selection_grid(lock),
        "rule": rule_words(lock),
        "commands": commands(analysis, plan),
    }


def commands(analysis: Json, plan: str) -> list[tuple[str, str]]:
    """Return the commands that rebuild this page or repeat the run, each with what it does."""
    ordinal = str(analysis.get("run_id") or "").split("-", maxsplit=1)[0].lstrip("0")
    is_registered = analysis.get("role") == "registered" or not ordinal.isdigit()
    run = plan if is_registered else f"{plan}@{ordinal}"
    return [
        ("harness verify", "check locks, chain, seals and records"),
        (f"harness analyze {run}", "recompute every verdict from the sealed records"),
        (f"harness report {run}", "write this report again"),
        (f"harness run conf={plan}", "repeat the run, as a replication"),
    ]
