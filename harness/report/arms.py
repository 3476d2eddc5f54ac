"""What each arm did: quality, speed, acceptance and memory, side by side."""

from __future__ import annotations

from collections.abc import Mapping

from harness.report.format import NOT_RECORDED, finite, fixed, size
from harness.report.grid import Cell, Column, Grid, Row
from harness.report.quantity import Quantity, part, quantity, show
from harness.store.canonical import Json

NO_DRAFTS = "no drafts"
COLUMNS = (
    Column("arm", "Arm"),
    Column("role", "Role"),
    Column("accuracy", "Accuracy", right=True),
    Column("agreement", "Agreement with pristine", right=True),
    Column("cpu", "CPU ms per token", right=True),
    Column("wall", "Wall ms per token", right=True),
    Column("rate", "Tokens per second", right=True),
    Column("acceptance", "Acceptance", right=True),
    Column("per_pass", "Tokens per verification", right=True),
    Column("cache", "Cache, mean", right=True),
)


def arms(analysis: Json) -> dict[str, Json]:
    """Return the arms that the analysis describes, in its order."""
    return {name: part(analysis.get("arms"), name) for name in part(analysis, "arms")}


def per_token(arm: Json, clock: str) -> Quantity:
    """Return milliseconds per token by `cpu` or `wall` clock, from the ratio or from its parts."""
    stated = arm.get("cpu_ms_per_token" if clock == "cpu" else "ms_per_token")
    found = quantity(stated)
    if found.recorded:
        return found
    seconds = quantity(arm.get("decode_cpu_seconds" if clock == "cpu" else "decode_seconds"))
    tokens = finite(arm.get("tokens"))
    if seconds.estimate is None or not tokens:
        return Quantity(recorded=False)
    return Quantity(1000 * seconds.estimate / tokens)


def acceptance(arm: Json) -> Quantity:
    """Return the share of drafted tokens that verification accepted."""
    found = quantity(arm.get("acceptance"))
    accepted, drafted = finite(arm.get("accepted")), finite(arm.get("drafted"))
    if found.estimate is None and accepted is not None and drafted:
        return Quantity(accepted / drafted, k=accepted, n=drafted)
    if not found.recorded and not drafted and arm.get("items") is not None:
        return Quantity(reason=NO_DRAFTS)
    return Quantity(
        found.estimate, found.low, found.high, accepted, drafted, found.reason, found.recorded
    )


def _per_pass(arm: Json) -> Quantity:
    found = quantity(arm.get("tokens_per_pass"))
    if not found.recorded and acceptance(arm).reason == NO_DRAFTS:
        return Quantity(reason=NO_DRAFTS)
    return found


def measures(arm: Json) -> Mapping[str, tuple[Quantity, str]]:
    """Return every number of an arm with its unit, by column."""
    return {
        "accuracy": (quantity(arm.get("accuracy")), "share"),
        "agreement": (quantity(arm.get("agreement_with_pristine")), "share"),
        "cpu": (per_token(arm, "cpu"), "ms"),
        "wall": (per_token(arm, "wall"), "ms"),
        "rate": (quantity(arm.get("tokens_per_second")), ""),
        "acceptance": (acceptance(arm), "share"),
        "per_pass": (_per_pass(arm), ""),
    }


def arms_grid(analysis: Json, plan_json: Json) -> Grid:
    """Return the table of arms."""
    table = tuple(
        Row(name, _cells(name, arm, part(part(plan_json, "arms"), name)))
        for name, arm in arms(analysis).items()
    )
    return Grid("arms", "What each arm did", COLUMNS, table)


def _cells(name: str, arm: Json, planned: Json) -> tuple[Cell, ...]:
    role = str(arm.get("role") or planned.get("role") or NOT_RECORDED)
    is_pristine = role == "pristine"
    beside = " ".join(words for words in (_at_most(arm), _floor(arm)) if words)
    numbers = tuple(
        _cell(key, *entry, is_pristine, beside if key == "agreement" else "")
        for key, entry in measures(arm).items()
    )
    cache = size(quantity(arm.get("cache_bytes_mean")).estimate)
    return (Cell(name), Cell(role), *numbers, Cell(cache))


def within(arm: Json) -> Quantity:
    """Return how often the arm's own first two visits agree, the floor of token agreement."""
    return quantity(arm.get("agreement_within"))


def differing(arm: Json) -> Quantity:
    """Return the exact one-sided 95 % bound on the share of items that differ from pristine's."""
    return quantity(part(arm, "agreement_with_pristine").get("differ_at_most"))


def _at_most(arm: Json) -> str:
    found = differing(arm)
    return (
        f"differ\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}{show(found, 'share').estimate}"
        if found.estimate is not None
        else ""
    )


def _floor(arm: Json) -> str:
    found = within(arm)
    return (
        f"own\N{NO-BREAK SPACE}A/A\N{NO-BREAK SPACE}{show(found, 'share').estimate}"
        if found.estimate is not None
        else ""
    )


def _cell(key: str, found: Quantity, unit: str, is_pristine: bool, beside: str) -> Cell:
    if key == "agreement" and is_pristine:
        return Cell("reference", note=beside, join=", ")
    if found.reason == NO_DRAFTS:
        return Cell(NO_DRAFTS)
    shown = show(found, "" if unit == "ms" else unit)
    counts = (found.k, found.n)
    whole = [fixed(part, 0) for part in counts if part is not None]
    note = shown.interval or ("/".join(whole) if len(whole) == 2 else "")
    return Cell(shown.estimate, note=" ".join(words for words in (note, beside) if words))
