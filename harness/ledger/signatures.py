"""Signed heads: `ssh-keygen -Y`, offline, in a namespace of its own, with keys people have."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.ledger.anchors import Anchors, Announce, check_saved, read_saved, save_head
from harness.ledger.chain import Chain, Head
from harness.ledger.records import History
from harness.store.errors import ChangedError, HarnessError, NotReadyError, UsageError

NAMESPACE = "ripe-harness-ledger"


def sign_head(folder: Path, study: str, head: Head, key: Path, announce: Announce) -> Path:
    """Write a head with its signature into a folder and return the signature's file.

    Raises:
        UsageError: no such key, one inside the project, or a head signed before.
    """
    if not key.is_file():
        raise UsageError(f"--sign {key.name}: no such key file")
    if key.resolve().is_relative_to(folder.parent.parent.resolve()):
        raise UsageError(f"--sign {key.name}: a key inside the project ends up in git; move it out")
    statement = folder / f"{head.count:08d}.json"
    signature = statement.with_name(f"{statement.name}.sig")
    if signature.exists():
        raise UsageError(f"{signature.name}: this head is signed already")
    if not statement.exists():
        save_head(statement, study, head)
    done = _ssh_keygen(announce, ["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(statement)])
    if done.returncode != 0:
        raise UsageError(f"--sign {key.name}: ssh-keygen refused: {_first(done.stderr)}")
    return signature


def signature_anchors(
    folder: Path, chain: Chain, seen: History, signers: Path | None, announce: Announce
) -> Anchors:
    """Return an anchor per signature by one of the allowed signers.

    Raises:
        ChangedError: a signed head that the ledger no longer has. UsageError: no such signers file.
    """
    result = Anchors()
    statements = sorted(folder.glob("[0-9]*.json")) if folder.is_dir() else []
    if signers is None:
        if statements:
            result.notes.append("signatures not checked; name the keys you trust with --signers")
        return result
    if not signers.is_file():
        raise UsageError(f"--signers {signers.name}: no such file of allowed signers")
    for statement in statements:
        who, why = _signer(statement, signers, announce)
        if who is None:
            result.notes.append(f"{statement.name}: {why}")
            continue
        study, head = read_saved(statement)
        if study != chain.folder.name:
            raise ChangedError(f"{statement.name}: signed for ledger {study}")
        anchor = check_saved(chain, seen, head, f"anchors/{study}/{statement.name}")
        result.found.append(type(anchor)(f"the signature of {who}", anchor.covers))
    return result


def _signer(statement: Path, signers: Path, announce: Announce) -> tuple[str | None, str]:
    """Return who signed a statement, or why nobody that is allowed has."""
    signature = statement.with_name(f"{statement.name}.sig")
    if not signature.is_file():
        return None, "no signature beside it"
    find = ["-Y", "find-principals", "-s", str(signature), "-f", str(signers)]
    found = _ssh_keygen(announce, find)
    names = found.stdout.decode("utf-8", "replace").split()
    if found.returncode != 0 or not names:
        return None, "signed by nobody in the file of allowed signers"
    try:
        data = statement.read_bytes()
    except OSError as error:
        return None, str(error.strerror)
    words = ["-Y", "verify", "-f", str(signers), "-I", names[0], "-n", NAMESPACE]
    done = _ssh_keygen(announce, [*words, "-s", str(signature)], data)
    return (names[0], "") if done.returncode == 0 else (None, "the signature does not fit")


def _ssh_keygen(
    announce: Announce, words: list[str], data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    announce(f"ssh-keygen {' '.join(words[:2])}")
    try:
        return subprocess.run(
            ["ssh-keygen", *words], input=data, capture_output=True, timeout=60, check=False
        )
    except FileNotFoundError as error:
        raise NotReadyError("ssh-keygen: not found; install the OpenSSH client") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"ssh-keygen: {error}") from error


def _first(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "no reason given"
