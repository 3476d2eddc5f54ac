"""The lock: a frozen plan and the digest of everything that it depends on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.ledger.chain import Head
from harness.plan.digest import plan_from_json
from harness.plan.schema import Plan
from harness.store.canonical import Json, canonical
from harness.store.digests import FileTable, sha256_bytes
from harness.store.errors import ChangedError
from harness.store.files import read, read_json
from harness.store.paths import Project

FORMAT = 1

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Bucket = Literal["explore", "select", "confirm"]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """Base of every part of a lock: strict types, exact fields, immutable."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )


class FileEntry(Part):
    """Size and digest of one file."""

    bytes: Annotated[str, Field(pattern=r"^\d+$")]
    sha256: Sha256


class Files(Part):
    """Tables of the files that a lock covers, by name (see `harness.prereg.tables`)."""

    conf: dict[str, FileEntry]
    model: dict[str, FileEntry]
    patch: dict[str, FileEntry]
    code: dict[str, FileEntry]

    def table(self, part: str) -> FileTable:
        """Return one table as JSON values."""
        entries: dict[str, FileEntry] = getattr(self, part)
        return {name: entry.model_dump() for name, entry in entries.items()}


class LockedPartition(Part):
    """The items drawn for one bucket, in order; the digest covers their ids and content."""

    count: Natural
    ids: list[str]
    content_digest: Sha256


class Figures(Part):
    """What a selection saw of one candidate, and why it was passed over."""

    arm: str
    metrics: dict[str, float]
    admissible: bool
    reason: str | None
    rank: Positive | None


class Selected(Part):
    """The choice that a frozen rule made from a sealed run, with everything it looked at."""

    source_plan: str
    run_id: str
    seal_digest: Sha256
    rule: dict[str, Any]
    figures: list[Figures]
    chosen: str


class Parents(Part):
    """Digests of the files that the selection rests on."""

    select_lock_digest: Sha256
    select_seal_digest: Sha256


class Environment(Part):
    """The Python and the packages that the registered run needs."""

    python: str
    packages: dict[str, str]


class GitState(Part):
    """The commit at freeze, and whether anything but the project's own records differed from it."""

    commit: str
    dirty: bool


class LedgerHead(Part):
    """The ledger's head when the plan was frozen."""

    count: Natural
    digest: Sha256

    def head(self) -> Head:
        """Return it as the chain's own type."""
        return Head(self.count, self.digest)


class Lock(Part):
    """The content of lock.json. Its digest is the SHA-256 of the file's bytes."""

    format: Literal[1] = 1
    schema_: Positive = Field(alias="schema")
    plan: str
    study: str
    stage: Bucket
    question: str
    attempt: Positive
    """Which lock on its question this is; the ledger admits no other number."""
    tool_version: str
    frozen_utc: str
    plan_json: dict[str, Any]
    plan_digest: Sha256
    nonce: Sha256
    order_digest: Sha256
    partitions: dict[Bucket, LockedPartition]
    selection: Selected | None
    files: Files
    environment: Environment
    device_class: str
    threads: Positive
    parents: Parents | None
    git: GitState | None
    ledger_head: LedgerHead

    def values(self) -> Json:
        """Return the lock's JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def data(self) -> bytes:
        """Return the bytes of lock.json."""
        return canonical(self.values()) + b"\n"

    def typed_plan(self) -> Plan:
        """Return the frozen plan.

        Raises:
            ChangedError: the kept values are not a plan of a known schema.
        """
        return plan_from_json(self.plan_json)


def lock_digest(project: Project, plan: str) -> str:
    """Return the SHA-256 of a lock's bytes.

    Raises:
        IncompleteError: there is no lock.
    """
    return sha256_bytes(read(project.lock(plan)))


def read_lock(project: Project, plan: str) -> Lock:
    """Return a plan's lock, without comparing it with anything else (see `verify_lock`).

    Raises:
        IncompleteError: missing or empty. ChangedError: damaged, or fields that no freeze writes.
    """
    path = project.lock(plan)
    value = read_json(path)
    try:
        return Lock.model_validate_json(canonical(value))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ChangedError(f"{project.relative(path)}: {key}: {first['msg']}") from error
