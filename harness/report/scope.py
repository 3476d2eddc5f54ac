"""What a verdict is about, and how far it can be relied on."""

from __future__ import annotations

from harness.report.format import NOT_RECORDED, finite
from harness.report.quantity import part
from harness.store.canonical import Json
from harness.store.errors import Exit

Facts = tuple[tuple[str, str], ...]

_ROLES = {
    "registered": "registered run",
    "replication": "replication: it changes no registered verdict",
    "unregistered": "not preregistered",
}
_STANDING = {
    Exit.CHANGED: "Something changed since the freeze (code 3)",
    Exit.INCOMPLETE: "The run is incomplete (code 4)",
    Exit.REFUSED: "The run was refused (code 5)",
    Exit.DEVIATED: "The run deviates from its plan (code 6)",
    Exit.UNANCHORED: "The ledger is not anchored where it had to be (code 7)",
    Exit.VOID: "The run is void (code 9)",
}


def role_words(analysis: Json) -> str:
    """Return what kind of run it is."""
    return _ROLES.get(str(analysis.get("role")), "not preregistered")


def attempt_words(analysis: Json, lock: Json | None = None) -> str:
    """Return `attempt k of n` on the plan's question."""
    attempt = analysis.get("attempt")
    known = attempt if isinstance(attempt, dict) else {"k": attempt, "n": analysis.get("attempts")}
    k, n = finite(known.get("k")), finite(known.get("n"))
    k = finite((lock or {}).get("attempt")) if k is None else k
    if k is None:
        return NOT_RECORDED
    if n is None:
        return f"attempt {k:.0f}; the ledger has the total"
    return f"attempt {k:.0f} of {n:.0f}"


def anchor_words(anchored: object) -> str:
    """Return by whom the ledger is anchored, or that it is not."""
    if isinstance(anchored, str) and anchored:
        return f"anchored by {anchored}"
    return "anchored" if anchored is True else "unanchored"


def scope_facts(analysis: Json, plan_json: Json, lock: Json | None) -> Facts:
    """Return the scope as titles and values."""
    scope = part(analysis, "scope")
    model = scope.get("model") or part(plan_json, "model").get("name")
    source = scope.get("source") or part(plan_json, "partitions").get("source")
    device = scope.get("device_class") or (lock or {}).get("device_class")
    return (
        ("Checkpoint", str(model or NOT_RECORDED)),
        ("Item source", str(source or NOT_RECORDED)),
        ("Device class", str(device or NOT_RECORDED)),
        ("Run", role_words(analysis)),
        ("Attempt", attempt_words(analysis, lock)),
        ("Anchor", anchor_words(scope.get("anchored"))),
    )


def reliance(analysis: Json) -> str:
    """Return why the verdicts are not to be relied on, or nothing."""
    code = finite(analysis.get("exit_code"))
    return _STANDING.get(Exit(int(code)), "") if code in set(Exit) else ""


def standing(analysis: Json) -> str:
    """Return what must be read before the outcome, or nothing."""
    words = reliance(analysis)
    if words:
        return f"{words}: the verdicts below are reported, not to be relied on."
    if analysis.get("role") == "replication":
        return "This run is a replication: it changes no registered verdict."
    if analysis.get("role") != "registered":
        return "This run was not preregistered: nothing below is a confirmation."
    return ""


def card_facts(card: Json | None) -> Facts:
    """Return the short entries of a model card."""
    short = [
        (key.replace("_", " "), value)
        for key, value in sorted((card or {}).items())
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return tuple((key, str(value)) for key, value in short if len(str(value)) <= 200)
