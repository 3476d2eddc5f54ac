"""One pass under RIPE: which rows each loop reads, and what goes into the rings afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.backends.sglang.report import Reporter
from harness.backends.sglang.ripe.options import Options
from harness.backends.sglang.ripe.tables import Rings, decode_rows, pass_rows, ring_writes

if TYPE_CHECKING:
    from torch import Tensor

READS = "ripe_reads"
WRITES = "ripe_ring_writes"


class SlotTables:
    """For each loop with rings a table like SGLang's own: the row of each request's positions."""

    def __init__(self, rings: Rings, req_to_token: Tensor) -> None:
        import torch

        self._rings = rings
        self._req_to_token = req_to_token
        device, loops = req_to_token.device, rings.loops - 1 if rings.window else 0
        self._loops = torch.arange(1, loops + 1, device=device).view(-1, 1, 1)
        # Made once, for the most requests and the longest context there can be.
        self._tables = req_to_token.new_zeros(loops, *req_to_token.shape)

    def fill(self, slots: Tensor, queries: Tensor) -> None:
        """Make the tables of a pass of one token at `queries` [requests] for each request."""
        import torch

        rows, columns = len(slots), int(queries.max()) + 1
        position = torch.arange(columns, device=slots.device)
        pool_row = self._req_to_token[slots, :columns]
        self._tables[:, :rows, :columns] = decode_rows(
            self._rings, self._loops, slots.view(-1, 1), position, queries.view(-1, 1), pool_row
        )

    def of(self, loop: int) -> Tensor:
        """Rows to read in one loop: [requests or more, positions or more]."""
        return self._tables[loop - 1]


class Passes:
    """The state behind a patched backend: ring ends for each request slot, and what a pass needs.

    `ends` [slots] says up to which position a slot's ring is written by the request that has the
    slot now; a pass that goes on from anywhere else is stopped.
    """

    def __init__(
        self, options: Options, rings: Rings, req_to_token: Tensor, reporter: Reporter
    ) -> None:
        import torch

        self.options = options
        self.rings = rings
        self._req_to_token = req_to_token
        self._reporter = reporter
        self._ends = torch.zeros(len(req_to_token), dtype=torch.int64, device=req_to_token.device)
        self._writes: tuple[Tensor, Tensor, Tensor] | None = None
        self._plans: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._spans: list[tuple[int, int, int]] = []
        self.goes_on = False
        """Whether any request of the pass in work has earlier positions to read."""

    def prepare_decode(self, slots: Tensor, lengths: Tensor) -> None:
        """A pass of one token for each request; lengths [requests] count it."""
        import torch

        slots, lengths = slots.long(), lengths.long()
        starts = lengths - 1
        self._follow(slots, starts, lengths)
        self.goes_on = True
        if self.rings.window:
            self._writes = ring_writes(slots, starts, torch.ones_like(starts), self.rings.window)

    def prepare_extend(self, slots: Tensor, starts: Tensor, counts: Tensor) -> None:
        """A pass of counts [requests] tokens from positions starts [requests] on.

        Raises RuntimeError for a pass that the policy does not allow.
        """
        slots, starts, counts = slots.long(), starts.long(), counts.long()
        self._follow(slots, starts, starts + counts)
        spans = list(zip(slots.tolist(), starts.tolist(), counts.tolist(), strict=True))
        for _, start, count in spans:
            self._check_span(start, count)
        self.goes_on = any(start > 0 for _, start, _ in spans)
        self._plans.clear()
        self._spans = spans
        if self.rings.window:
            self._writes = ring_writes(slots, starts, counts, self.rings.window)

    def plan(self, loop: int) -> list[tuple[Tensor, Tensor]]:
        """Rows and mask of each request of an extend pass in one loop."""
        if loop not in self._plans:
            self._plans[loop] = [
                pass_rows(self.rings, loop, slot, start, count, self._req_to_token[slot])
                for slot, start, count in self._spans
            ]
        return self._plans[loop]

    def retire(self, loop: int, keys: Tensor, values: Tensor, k: Tensor, v: Tensor) -> None:
        """Write the last positions of a pass into a loop's ring, after its attention.

        keys and values are the cache layer's rows; k and v [tokens, heads, size] the pass's own.
        """
        if self._writes is None:
            return
        token, slot, position = self._writes
        rows = self.rings.row(loop, slot, position)
        keys[rows] = k[token].to(keys.dtype)
        values[rows] = v[token].to(values.dtype)
        self._reporter.count(WRITES, len(token))

    def count_reads(self, tokens: int) -> None:
        """Count the tokens of one attention call under the policy."""
        self._reporter.count(READS, tokens)

    def _follow(self, slots: Tensor, starts: Tensor, ends: Tensor) -> None:
        """A request begins at 0 or goes on where its ring ends; slot 0 belongs to no request."""
        import torch

        fits = (starts == 0) | (starts == self._ends[slots]) | (slots == 0)
        torch._assert_async(fits.all(), "RIPE: a pass does not go on where its request's ring ends")
        self._ends[slots] = ends

    def _check_span(self, start: int, count: int) -> None:
        longest = self.options.longest_pass
        if longest is None and start > 0:
            longest = self.options.window + 1
        if longest is not None and count > longest:
            raise RuntimeError(
                f"RIPE: found a pass of {count} tokens from position {start}, expected at most "
                f"{longest} (window + 1)"
            )
