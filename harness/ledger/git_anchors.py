"""Git as an anchor: which commits hold these very bytes of the ledger, and of the locks."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from harness.ledger.anchors import Anchor, Anchors, Announce
from harness.ledger.chain import Chain
from harness.store.errors import HarnessError
from harness.store.files import read

_MOST_COMMITS = 200


def git_anchors(root: Path, chain: Chain, announce: Announce) -> Anchors:
    """Return one anchor per commit that holds a beginning of the ledger, oldest first.

    A shallow clone has lost the commits that would show the order, so nothing is said of it.
    """
    result = Anchors()
    if _git(root, announce, "rev-parse", "--git-dir") is None:
        result.notes.append("git: not a repository")
        return result
    if (_git(root, announce, "rev-parse", "--is-shallow-repository") or b"").strip() != b"false":
        result.notes.append("git: not checkable in a shallow clone")
        return result
    folder = chain.folder.relative_to(root).as_posix()
    words = ("log", "--all", "--reverse", "--topo-order", "--format=%H", "--", folder)
    commits = (_git(root, announce, *words) or b"").decode().split()
    blobs = _blobs(chain)
    for commit in commits[:_MOST_COMMITS]:
        covers = _covered(root, announce, commit, folder, blobs)
        if covers and _same_bytes(root, announce, commit, chain, folder, covers):
            result.found.append(Anchor(_name(root, announce, commit), covers))
    if not result.found:
        result.notes.append("git: no commit holds this ledger")
    return result


def holds(root: Path, commit: str, name: str, data: bytes, announce: Announce) -> bool | None:
    """Return whether a commit holds these bytes under this name; None where it is not there."""
    found = _git(root, announce, "cat-file", "blob", f"{commit}:./{name}")
    return None if found is None else found == data


def _covered(
    root: Path, announce: Announce, commit: str, folder: str, blobs: dict[str, set[str]]
) -> int:
    """Return how many records from the first on a commit holds, by their object names."""
    listed = _git(root, announce, "ls-tree", commit, "--", f"./{folder}/") or b""
    there: dict[str, str] = {}
    for line in listed.decode("utf-8", "replace").splitlines():
        meta, _, name = line.partition("\t")
        there[name.rsplit("/", 1)[-1]] = meta.split()[2]
    count = 0
    for name, ids in sorted(blobs.items()):
        if there.get(name) not in ids:
            break
        count += 1
    return count


def _blobs(chain: Chain) -> dict[str, set[str]]:
    """Return the object names, under either of git's hashes, of every record's file."""
    found: dict[str, set[str]] = {}
    for path in sorted(chain.folder.glob("[0-9]*.json")):
        data = path.read_bytes()
        framed = b"blob %d\0" % len(data) + data
        sha1 = hashlib.sha1(framed, usedforsecurity=False).hexdigest()
        found[path.name] = {sha1, hashlib.sha256(framed).hexdigest()}
    return found


def _same_bytes(
    root: Path, announce: Announce, commit: str, chain: Chain, folder: str, n: int
) -> bool:
    """Compare the last covered record byte by byte; through `prev` it vouches for the others."""
    path = chain.path(n)
    try:
        return holds(root, commit, f"{folder}/{path.name}", read(path), announce) is True
    except HarnessError:
        return False


def _name(root: Path, announce: Announce, commit: str) -> str:
    tags = (_git(root, announce, "tag", "--points-at", commit) or b"").decode().split()
    return f"git tag {tags[0]}" if tags else f"git commit {commit[:12]}"


def _git(root: Path, announce: Announce, *words: str) -> bytes | None:
    announce(f"git {' '.join(words)}")
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
