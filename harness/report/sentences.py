"""One sentence per prediction, fit to be pasted; a failure reads like a success."""

from __future__ import annotations

from harness.report.format import NOT_ESTIMABLE, NOT_RECORDED, count, finite
from harness.report.quantity import part
from harness.report.scope import attempt_words, reliance, scope_facts
from harness.report.verdicts import Verdict, expected_note, percent
from harness.store.canonical import Json

_WORDS = {"held": "held", "failed": "failed", "inconclusive": "is inconclusive", "void": "is void"}
_ROLES = {"registered": "registered run", "replication": "replication"}


def sentences(
    analysis: Json, plan_json: Json, lock: Json | None, found: list[Verdict]
) -> list[tuple[str, str]]:
    """Return every prediction's id with its sentence."""
    about = _about(analysis, plan_json, lock)
    return [(verdict.id, f"{_verdict(verdict)}; {about}.") for verdict in found]


def _verdict(verdict: Verdict) -> str:
    claim = str(verdict.data.get("claim") or f"claim {NOT_RECORDED}").rstrip(".")
    note = expected_note(verdict)
    word = _WORDS[verdict.word] + (f", {note}" if note.startswith("as") else "")
    word += f", though {note}" if note and not note.startswith("as") else ""
    return f"Prediction {verdict.id} ({verdict.family}), “{claim}”, {word}: {_figures(verdict)}"


def _figures(verdict: Verdict) -> str:
    estimate, interval = verdict.shown
    is_known = verdict.found.estimate is not None
    pieces = [f"estimate {estimate}" if is_known else _no_estimate(verdict)]
    level = finite(verdict.data.get("confidence_level"))
    if interval:
        named = (
            "interval at a level not recorded" if level is None else f"{percent(level)} interval"
        )
        pieces.append(f"{named} {interval}")
    pieces.append(f"frozen region {verdict.region_text}")
    clusters, per = verdict.data.get("clusters"), part(verdict.data, "estimand").get("cluster")
    if finite(clusters) is not None:
        pieces.append(f"{count(clusters)} {per or 'cluster'}s")
    return ", ".join(pieces)


def _no_estimate(verdict: Verdict) -> str:
    reason = verdict.found.reason
    return f"{NOT_ESTIMABLE} ({reason})" if reason else NOT_ESTIMABLE


def _about(analysis: Json, plan_json: Json, lock: Json | None) -> str:
    facts = dict(scope_facts(analysis, plan_json, lock))
    attempt = attempt_words(analysis, lock).split(";")[0]
    role = _ROLES.get(str(analysis.get("role")), "not preregistered")
    warning = reliance(analysis)
    return (
        f"{attempt if attempt != NOT_RECORDED else 'attempt not recorded'}, {facts['Anchor']}; "
        f"checkpoint {facts['Checkpoint']}, item source {facts['Item source']}, "
        f"device class {facts['Device class']}, {role}"
        + (f"; not to be relied on: {warning[0].lower()}{warning[1:]}" if warning else "")
    )
