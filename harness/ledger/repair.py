"""A record cut short by a failing disk: set aside, and what happened is written in its place."""

from __future__ import annotations

from pathlib import Path

from harness.ledger.chain import Chain, Head
from harness.ledger.records import LedgerRepaired, body_json
from harness.store.canonical import Json
from harness.store.clock import CLOCK, Clock
from harness.store.digests import sha256_bytes


def repair(chain: Chain, reason: str, clock: Clock = CLOCK) -> Path:
    """Move the torn last record aside, record that, and return where its bytes are.

    The repair stays visible for ever: every later verification of the ledger calls it a deviation.

    Raises:
        RefusedError: the last record is whole. ChangedError, IncompleteError: an earlier one is
        broken, which no repair can mend.
    """

    def describe(torn: bytes, noted: Head | None) -> Json:
        body = LedgerRepaired(
            found_bytes=len(torn),
            found_digest=sha256_bytes(torn),
            expected_digest=noted.digest if noted is not None else None,
            reason=reason,
        )
        return body_json(body)

    return chain.mend(LedgerRepaired.KIND, describe, clock)
