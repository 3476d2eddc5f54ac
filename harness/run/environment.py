"""Which machine a run saw, recognisable within its plan and nowhere else."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import psutil

from harness.prereg.environment import device_class
from harness.store.canonical import Json
from harness.store.randomness import derive

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def machine(device: str, salt: str) -> Json:
    """Return the manifest's machine: a salted id, the device class and sizes, but no names."""
    return {
        "id": machine_id(salt),
        "device_class": device_class(device),
        "cpu_count": os.cpu_count() or 1,
        "memory_bytes": str(psutil.virtual_memory().total),
    }


def machine_id(salt: str) -> str:
    """Return 16 hex digits that only this machine and this salt give."""
    return derive("machine-v1", salt, _own_id()).hex()[:16]


def _own_id() -> str:
    for path in _MACHINE_IDS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError):
            continue
        if text:
            return text
    return f"{uuid.getnode():012x}"
