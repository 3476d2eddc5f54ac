"""The bytes of a plan that are hashed and kept in its lock."""

from __future__ import annotations

from pydantic import ValidationError

from harness.plan.checks import check
from harness.plan.schema import SCHEMA, Plan
from harness.store.canonical import Json, canonical
from harness.store.digests import sha256_bytes
from harness.store.errors import ChangedError, UsageError


def plan_json(plan: Plan) -> Json:
    """Return the plan as JSON values; fields that are unset or None are left out."""
    data = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"schema": SCHEMA, **data}


def plan_digest(plan: Plan) -> str:
    """Return the SHA-256 of the plan's canonical JSON."""
    return sha256_bytes(canonical(plan_json(plan)))


def plan_from_json(data: Json) -> Plan:
    """Rebuild a plan from `plan_json`.

    Raises:
        ChangedError: another schema number, or values that this schema refuses.
    """
    values = dict(data)
    found = values.pop("schema", None)
    if found != SCHEMA:
        raise ChangedError(f"plan: schema {found!r} is not known; this version reads {SCHEMA}")
    try:
        return check(Plan.model_validate_json(canonical(values)))
    except (ValidationError, UsageError) as error:
        raise ChangedError(f"plan: {error}") from error
