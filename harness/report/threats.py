"""Threats to validity: what the analysis names, and what its own figures say."""

from __future__ import annotations

from harness.report.format import count, finite, listed, plural
from harness.report.quantity import Quantity, part, quantity, show
from harness.report.verdicts import Verdict
from harness.store.canonical import Json

FEW = 30
_ORDER = (
    ("drift", "Drift over the run"),
    ("first_run", "First-run effect"),
    ("carry_over", "Carry-over between arms"),
)


def threats(analysis: Json, found: list[Verdict]) -> list[str]:
    """Return every threat as a sentence, the analysis's own first."""
    stated = analysis.get("threats")
    own = [_sentence(str(line)) for line in stated] if isinstance(stated, list) else []
    control = [] if any("A/A" in line for line in own) else _aa(analysis)
    computed = [*_order(analysis), *_blocks(analysis), *_clusters(found), *control]
    lines = [*own, *computed, *_near_ties(analysis), *_differences(analysis)]
    return list(dict.fromkeys(lines))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _order(analysis: Json) -> list[str]:
    effects = part(analysis, "order")
    if effects.get("not_estimable"):
        return [f"Order effects: not estimable: {effects['not_estimable']}."]
    return [f"{title}: {_effect(quantity(effects.get(key)))}." for key, title in _ORDER]


def _effect(found: Quantity) -> str:
    text = show(found, beside=[0.0]).line
    if found.estimate is None:
        return text
    if found.bounds is None:
        return f"{text} in the log ratio, interval not estimable"
    clear = found.bounds[0] > 0 or found.bounds[1] < 0
    place = "outside" if clear else "inside"
    return f"{text} in the log ratio, zero is {place} the interval"


def _blocks(analysis: Json) -> list[str]:
    blocks = part(analysis, "blocks")
    if not blocks:
        return ["Blocks: how many were interrupted or voided is not recorded."]
    names = ("interrupted", "void", "spare_used")
    counted = [f"{count(blocks.get(name))} {name.replace('_', ' ')}" for name in names]
    planned, scored = count(blocks.get("planned")), count(blocks.get("scored"))
    return [f"Blocks: {planned} planned, {scored} scored, {listed(counted)}."]


def _clusters(found: list[Verdict]) -> list[str]:
    lines = []
    for verdict in found:
        clusters = finite(verdict.data.get("clusters"))
        least = finite(verdict.planned.get("min_clusters"))
        if clusters is None:
            lines.append(f"{verdict.id}: the number of clusters is not recorded.")
        elif least is not None and clusters < least:
            lines.append(
                f"{verdict.id} rests on {plural(int(clusters), 'cluster')}, "
                f"fewer than the {least:.0f} that the plan asks for."
            )
        elif clusters < FEW:
            lines.append(
                f"{verdict.id} rests on {plural(int(clusters), 'cluster')}; "
                f"below {FEW}, intervals lean on their small-sample correction."
            )
    return lines


def _aa(analysis: Json) -> list[str]:
    aa = part(analysis, "aa")
    if not aa:
        return ["A/A control: not recorded, so the noise floor of this machine is unknown."]
    delta = finite(aa.get("delta"))
    text = show(quantity(aa), beside=[] if delta is None else [-delta, delta]).line
    place = "inside" if aa.get("ok") is True else "not inside"
    limit = "a limit that is not recorded" if delta is None else f"±{delta:g}"
    return [f"A/A control: pristine against itself gives {text} in the log ratio, {place} {limit}."]


def _near_ties(analysis: Json) -> list[str]:
    ties = part(analysis, "near_ties")
    counted, tokens = finite(ties.get("counted")), finite(ties.get("tokens"))
    if counted is None or tokens is None:
        return ["Near ties between the two likeliest tokens: not recorded."]
    margin, left = finite(ties.get("margin")), finite(ties.get("unexplained"))
    bound = "a bound that is not recorded" if not margin else f"a rounding bound of {margin:.3g}"
    rest = "not recorded" if left is None else count(left)
    return [
        f"Near ties: in {count(tokens)} compared tokens, {count(counted)} divergences from "
        f"pristine fall where the two likeliest tokens lie within {bound}; "
        f"divergences without such a tie: {rest}."
    ]


def _differences(analysis: Json) -> list[str]:
    found = analysis.get("lock_differences")
    lines = [str(line) for line in found] if isinstance(found, list) else []
    return [f"Differs from what was locked: {line}." for line in lines]
