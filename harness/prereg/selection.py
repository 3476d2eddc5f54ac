"""The frozen rule that picks a candidate from a sealed select run; nobody types the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.plan.schema import ArmSpec, Candidate, Metric, Plan, Selection, SelectionRule
from harness.prereg.lock import Figures
from harness.store.errors import RefusedError, UsageError

ArmFigures = Mapping[str, Mapping[str, Any]]
"""Arm → metric → value, as measured by the select run."""

_OPTIONS = ("window", "draft_loops", "draft_tokens")


def rank(selection: Selection, figures: ArmFigures) -> tuple[Figures, ...]:
    """Return every candidate's figures in the plan's order, with its rank or the reason against it.

    Ranks start at 1; of equals the earlier candidate comes first.
    """
    rule = selection.rule
    judged = [_judge(rule, one.arm, figures.get(one.arm, {})) for one in selection.candidates]
    sign = -1.0 if rule.maximize is not None else 1.0
    goal = rule.maximize or rule.minimize or ""
    able = [place for place, one in enumerate(judged) if one.admissible]
    able.sort(key=lambda place: (sign * judged[place].metrics[goal], place))
    ranks = {place: number for number, place in enumerate(able, start=1)}
    return tuple(
        one.model_copy(update={"rank": ranks.get(place)}) for place, one in enumerate(judged)
    )


def winner(plan: str, figures: tuple[Figures, ...]) -> str:
    """Return the arm with rank 1.

    Raises:
        RefusedError: no candidate is admissible.
    """
    for one in figures:
        if one.rank == 1:
            return one.arm
    reasons = "; ".join(f"{one.arm}: {one.reason}" for one in figures)
    raise RefusedError(f"{plan}: selection: no candidate is admissible ({reasons})")


def check_candidates(plan: Plan, source: Plan) -> None:
    """Check that each candidate stands for the options that its arm ran with in the select plan.

    Raises:
        UsageError: an unknown or repeated arm. RefusedError: options that were not measured.
    """
    assert plan.selection is not None
    names = [candidate.arm for candidate in plan.selection.candidates]
    for candidate in plan.selection.candidates:
        where = f"conf/{plan.plan}.yaml: selection.candidates: {candidate.arm}"
        if names.count(candidate.arm) > 1:
            raise UsageError(f"{where}: appears twice")
        arm = source.arms.get(candidate.arm)
        if arm is None:
            raise UsageError(
                f"{where}: not an arm of {source.plan}; it has {', '.join(source.arms)}"
            )
        measured = _options(arm)
        for option in _OPTIONS:
            stated, ran = getattr(candidate, option), measured[option]
            if stated != ran:
                raise RefusedError(
                    f"{where}: {option}: found {_said(stated)}, but its arm in {source.plan} ran "
                    f"with {_said(ran)}; only what was measured can be chosen"
                )


def candidate_of(plan: Plan, arm: str) -> Candidate:
    """Return the candidate that names an arm."""
    assert plan.selection is not None
    return next(one for one in plan.selection.candidates if one.arm == arm)


def _options(arm: ArmSpec) -> dict[str, Any]:
    return {
        "window": arm.cache.window if arm.cache else None,
        "draft_loops": arm.decode.draft_loops if arm.decode else None,
        "draft_tokens": arm.decode.draft_tokens if arm.decode else None,
    }


def _said(value: object) -> str:
    return "none" if value is None else str(value)


def _judge(rule: SelectionRule, arm: str, values: Mapping[str, Any]) -> Figures:
    metrics = {name: float(value) for name, value in values.items() if _is_figure(value)}
    wanted = [name for name in (rule.maximize, rule.minimize) if name is not None]
    wanted += [bound.metric for bound in rule.subject_to]
    reason = next((_missing(name, values) for name in wanted if name not in metrics), None)
    if reason is None:
        broken = (_broken(bound, metrics[bound.metric]) for bound in rule.subject_to)
        reason = next((text for text in broken if text), None)
    return Figures(arm=arm, metrics=metrics, admissible=reason is None, reason=reason, rank=None)


def _is_figure(value: object) -> bool:
    """Whether a value is a finite number; a bool or a text that looks like one is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def _missing(name: str, values: Mapping[str, Any]) -> str:
    return (
        f"{name}: found {values[name]!r}, no finite number"
        if name in values
        else f"{name}: no figure"
    )


def _broken(bound: Metric, value: float) -> str | None:
    if bound.at_least is not None and value < bound.at_least:
        return f"{bound.metric}: found {value:g}, expected at least {bound.at_least:g}"
    if bound.at_most is not None and value > bound.at_most:
        return f"{bound.metric}: found {value:g}, expected at most {bound.at_most:g}"
    return None
