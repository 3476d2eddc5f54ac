"""Verdicts as a table and as one sentence; a failed prediction is printed like any other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.report.format import (
    NOT_ESTIMABLE,
    NOT_RECORDED,
    count,
    finite,
    listed,
    percent_round,
    plural,
    region,
)
from harness.report.grid import Cell, Column, Grid, Row
from harness.report.quantity import Quantity, part, quantity, rows, show
from harness.report.strip import strip
from harness.store.canonical import Json

_VERBS = {"held": "held", "failed": "failed"}
WORDS = ("held", "failed", "inconclusive", "void")
_UNIT_OF = {"log_ratio": "ratio", "ratio_of_sums": "ratio", "agreement": "share"}
COLUMNS = (
    Column("word", "Verdict"),
    Column("claim", "Prediction", wide=True),
    Column("estimate", "Estimate and interval", right=True),
    Column("drawing", "Interval against region", drawn=True),
    Column("region", "Region", right=True),
    Column("clusters", "Clusters", right=True),
    Column("level", "Level", right=True),
    Column("confidence", "Author’s confidence", right=True),
    Column("method", "Method"),
)


@dataclass(frozen=True)
class Verdict:
    """One prediction with its verdict, joined with what the plan says about it."""

    data: Json
    planned: Json

    @property
    def id(self) -> str:
        """The prediction's id."""
        return str(self.data.get("id") or "unnamed")

    @property
    def word(self) -> str:
        """The verdict's word; whatever is not one of the four is void."""
        word = self.data.get("word")
        return str(word) if word in WORDS else "void"

    @property
    def is_control(self) -> bool:
        """Whether the prediction is there to fail."""
        return bool(self._get("family") == "control")

    @property
    def family(self) -> str:
        """Primary, secondary, descriptive or control."""
        return str(self._get("family") or "family not recorded")

    @property
    def unit(self) -> str:
        """The unit in which estimate and region are given."""
        estimand = self._get("estimand")
        kind = estimand.get("kind") if isinstance(estimand, dict) else None
        return str(self.data.get("unit") or _UNIT_OF.get(str(kind), ""))

    @property
    def found(self) -> Quantity:
        """Estimate and interval; the reasons where there is none."""
        found = quantity({key: self.data.get(key) for key in ("estimate", "low", "high")})
        why = self.data.get("not_estimable") or self.reasons
        return Quantity(found.estimate, found.low, found.high, reason=str(why) if why else None)

    @property
    def reasons(self) -> str:
        """Why the verdict is what it is, in the analysis's words."""
        found = self.data.get("reasons")
        return "; ".join(str(reason) for reason in found) if isinstance(found, list) else ""

    @property
    def region(self) -> tuple[float | None, float | None]:
        """The frozen region's ends."""
        ends = self._get("region")
        if not isinstance(ends, list | tuple) or len(ends) != 2:
            return (None, None)
        return (finite(ends[0]), finite(ends[1]))

    @property
    def region_text(self) -> str:
        """The frozen region in words."""
        if self._get("region") is None:
            return NOT_RECORDED
        return region(*self.region, self.unit, is_open=bool(self._get("open")))

    @property
    def shown(self) -> tuple[str, str]:
        """Estimate and interval as text."""
        text = show(self.found, self.unit, self.region)
        return text.estimate, text.interval

    @property
    def confidence(self) -> float | None:
        """The author's P(held), as frozen."""
        found = finite(self.data.get("author_confidence"))
        return finite(self.planned.get("confidence")) if found is None else found

    @property
    def chance(self) -> float | None:
        """The chance that the prediction would have held if the arms did not differ."""
        found = finite(self.data.get("chance_if_no_effect"))
        return found if found is not None and 0 <= found <= 1 else None

    @property
    def is_log(self) -> bool:
        """Whether the estimate lives on a ratio scale."""
        return self.unit == "ratio"

    def _get(self, key: str) -> Any:
        return self.data.get(key, self.planned.get(key))


def verdicts(analysis: Json, plan_json: Json | None = None) -> list[Verdict]:
    """Return every verdict of an analysis, in the plan's order."""
    planned = {row.get("id"): row for row in rows(plan_json or {}, "predictions")}
    return [Verdict(row, planned.get(row.get("id"), {})) for row in rows(analysis, "verdicts")]


def percent(value: float | None) -> str:
    """Return a share as a percentage, as it was typed."""
    return NOT_RECORDED if value is None else region(value, value, "share").split(" to ")[1]


def chance_text(share: float) -> str:
    """Return a chance as a whole percentage; only what is certain is printed as 0 or 100.

    >>> chance_text(0.041), chance_text(0.0001), chance_text(1.0)
    ('4\u202f%', '< 1\u202f%', '100\u202f%')
    """
    if 0 < share < 0.005:
        return f"< {percent_round(0.01)}"
    return f"> {percent_round(0.99)}" if 0.995 <= share < 1 else percent_round(share)


def verdict_grid(found: list[Verdict]) -> Grid:
    """Return the table of all predictions."""
    table = tuple(Row(verdict.id, _cells(verdict)) for verdict in found)
    return Grid("verdicts", "Every prediction and its verdict", COLUMNS, table)


def _cells(verdict: Verdict) -> tuple[Cell, ...]:
    claim = verdict.data.get("claim") or NOT_RECORDED
    clusters = count(verdict.data.get("clusters"))
    per = part(verdict.data, "estimand").get("cluster")
    return (
        Cell(verdict.word, note=expected_note(verdict), tone=verdict.word, join=", "),
        Cell(f"{verdict.id}: {claim}", note=_claim_note(verdict), join=" · "),
        estimate_cell(verdict),
        Cell("", drawing=drawing(verdict)),
        Cell(verdict.region_text),
        Cell(clusters, note=f"{per}s" if per else ""),
        Cell(percent(finite(verdict.data.get("confidence_level")))),
        Cell(percent(verdict.confidence)),
        Cell(str(verdict.data.get("method") or NOT_RECORDED)),
    )


def estimate_cell(verdict: Verdict) -> Cell:
    """Return the estimate over its interval; the reason for a missing one stands by the claim."""
    estimate, interval = verdict.shown
    return Cell(NOT_ESTIMABLE if verdict.found.estimate is None else estimate, note=interval)


def expected_note(verdict: Verdict) -> str:
    """Return what a control's word means."""
    if not verdict.is_control:
        return ""
    return "as a control must" if verdict.word == "failed" else "a control must fail"


def _claim_note(verdict: Verdict) -> str:
    notes = [verdict.family]
    if verdict.chance is not None:
        notes.append(f"chance to hold if nothing differed: {chance_text(verdict.chance)}")
    if verdict.reasons:
        notes.append(verdict.reasons)
    if verdict.data.get("not_estimable"):
        notes.append(f"{NOT_ESTIMABLE}: {verdict.data['not_estimable']}")
    if verdict.data.get("without_voids"):
        notes.append(f"with the voided blocks kept: {verdict.data['without_voids']}")
    return " · ".join(notes)


def drawing(verdict: Verdict) -> Markup:
    """Return the interval against its region as a small drawing."""
    estimate, interval = verdict.shown
    label = f"{verdict.id}: {estimate} {interval} against {verdict.region_text}, {verdict.word}"
    return strip(verdict.found, verdict.region, verdict.word, label, is_log=verdict.is_log)


def tally(found: list[Verdict]) -> str:
    """Return how many held, failed, were inconclusive or void; controls are counted apart.

    >>> tally([Verdict({"word": "held"}, {}), Verdict({"word": "void"}, {})])
    '1 held and 1 is void'
    """
    words = Counter(verdict.word for verdict in found if not verdict.is_control)
    return listed(
        [
            f"{words[word]} {_VERBS.get(word) or ('is ' if words[word] == 1 else 'are ') + word}"
            for word in WORDS
            if words[word]
        ]
    )


def _primary(found: list[Verdict]) -> str:
    heads = [verdict for verdict in found if verdict.family == "primary"]
    if len(heads) != 1:
        return ""
    word = heads[0].word
    return f"The primary prediction {heads[0].id} {_VERBS.get(word) or f'is {word}'}"


def _controls(found: list[Verdict]) -> str:
    controls = [verdict for verdict in found if verdict.is_control]
    missed = [verdict.id for verdict in controls if verdict.word != "failed"]
    if missed:
        return (
            f"the control {listed(missed)} was not caught, "
            "so the quality test is not shown to be sensitive"
        )
    return "the control failed, as it must" if controls else ""


def outcome(found: list[Verdict]) -> str:
    """Return the run's outcome as one sentence, from verdict words alone."""
    claims = [verdict for verdict in found if not verdict.is_control]
    if not found:
        return "No prediction was judged."
    primary, counted = _primary(found), f"of {plural(len(claims), 'prediction')}, {tally(claims)}"
    if len(claims) == 1 and primary:
        counted = ""
    pieces = [piece for piece in (primary, counted if claims else "", _controls(found)) if piece]
    sentence = "; ".join(pieces)
    return sentence[0].upper() + sentence[1:] + "."
