"""How far a run is, counted in visits from its state alone."""

from __future__ import annotations

from harness.plan.order import Block, OrderTable
from harness.plan.schema import Plan
from harness.run.state import BlockState, RunState

AA_VISITS = 4


def counted(state: RunState, order: OrderTable, plan: Plan) -> tuple[int, int]:
    """Return (total, done) visits: A/A, planned blocks, and the spares called in so far."""
    aa = plan.schedule.aa_blocks * AA_VISITS
    aa_done = aa if state.aa else min(aa, sum(map(len, state.aa_visits.values())))
    called = {number for number, block in state.blocks.items() if block.replaces is not None}
    blocks = [block for block in order.blocks if not block.spare or block.block in called]
    total = sum(len(block.visits) for block in blocks)
    done = sum(_done(state.blocks.get(block.block), block) for block in blocks)
    return aa + total, aa_done + done


def _done(state: BlockState | None, block: Block) -> int:
    if state is None:
        return 0
    over = state.finished or state.interrupted
    return len(block.visits) if over else len(state.visits)
