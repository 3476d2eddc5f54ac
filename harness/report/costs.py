"""The fitted cost of a pass and, in one sentence, the regime that it describes."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.format import NOT_RECORDED, count, finite, number, percent_round
from harness.report.grid import Column, Grid, Row, cells
from harness.report.quantity import part
from harness.store.canonical import Json

PARTS = (
    ("per_pass_us", "per pass"),
    ("per_loop_pass_us", "per loop of a pass"),
    ("per_token_loop_us", "per token and loop"),
)


@dataclass(frozen=True)
class Cost:
    """What a pass costs in microseconds: once, per loop, and per token in every loop."""

    per_pass: float
    per_loop_pass: float
    per_token_loop: float
    fit: float | None
    visits: float | None
    batch: int
    """Rows of a pass."""
    loops: int
    tokens: int
    """Tokens per row of the longest pass that verifies drafts."""

    def parts_ms(self, tokens: int) -> tuple[float, float, float]:
        """Return a pass of `tokens` tokens per row in its three parts, in milliseconds."""
        work = self.loops * self.batch * tokens * self.per_token_loop
        return (self.per_pass / 1e3, self.loops * self.per_loop_pass / 1e3, work / 1e3)

    def total_ms(self, tokens: int) -> float:
        """Return what a pass of `tokens` tokens per row costs, in milliseconds."""
        return sum(self.parts_ms(tokens))


def cost(analysis: Json) -> Cost | None:
    """Return the run's fitted cost model, or None where there is none."""
    fitted = part(analysis, "cost_model")
    pass_us, loop_us, token_us = (finite(fitted.get(key)) for key, _ in PARTS)
    if pass_us is None or loop_us is None or token_us is None:
        return None
    loops = finite(part(analysis, "scope").get("loops"))
    return Cost(
        pass_us,
        loop_us,
        token_us,
        finite(fitted.get("r2")),
        finite(fitted.get("visits")),
        int(finite(fitted.get("batch")) or 1),
        int(loops or 1),
        int(finite(fitted.get("verified_tokens")) or 1),
    )


def costs_grid(analysis: Json) -> Grid:
    """Return the cost model as a table."""
    found = cost(analysis)
    columns = (Column("part", "Cost"), Column("value", "Fitted", right=True))
    lines: list[Row] = []
    if found is not None:
        values = (found.per_pass, found.per_loop_pass, found.per_token_loop)
        for (key, title), value in zip(PARTS, values, strict=True):
            lines.append(Row(key, cells(title, f"{number(value)} µs")))
        fit = NOT_RECORDED if found.fit is None else number(found.fit)
        lines.append(Row("fit", cells("R² of the fit", fit)))
        lines.append(Row("visits", cells("visits fitted", count(found.visits))))
    return Grid("costs", "Fitted cost of a pass", columns, tuple(lines))


def regime(analysis: Json) -> str:
    """Return what dominates a one-token pass, and what verifying several tokens then costs."""
    found = cost(analysis)
    if found is None or found.total_ms(1) <= 0:
        return "The regime is not estimable: no cost model was fitted."
    share = sum(found.parts_ms(1)[:2]) / found.total_ms(1)
    start = (
        f"The regime: {percent_round(share)} of a one-token pass over {found.batch} rows and "
        f"{found.loops} loops is paid once, whatever its number of tokens"
    )
    if found.tokens < 2:
        return f"{start}."
    ratio = found.total_ms(found.tokens) / found.total_ms(1)
    return f"{start}; a pass of {found.tokens} tokens costs {number(ratio)} times a pass of one."
