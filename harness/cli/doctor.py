"""`harness doctor`: is this environment ready, and for what."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import harness
from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.errors import Exit

_SGLANG_GB = 3.0
Check = tuple[str, str, str]
"""Name, state (ok, absent, broken), detail."""


def main(argv: Sequence[str]) -> int:
    """Print one line per check; exit 8 if something required is broken."""
    made = parser("doctor", "is this environment ready", json=True)
    made.add_argument(
        "--leftovers", action="store_true", help="list what killed runs left; exit 8 if anything"
    )
    args = made.parse_args(argv)
    if args.leftovers:
        return _leftovers(as_json=args.json)
    checks = [check() for check in CHECKS]
    if args.json:
        print_json([dict(zip(("name", "state", "detail"), check, strict=True)) for check in checks])
    else:
        marks = {"ok": "[green]ok[/]", "absent": "[yellow]absent[/]", "broken": "[red]broken[/]"}
        for name, state, detail in checks:
            console().print(f"{marks[state]:<18} {name}: {detail}")
    broken = any(state == "broken" for _, state, _ in checks)
    return Exit.NOT_READY if broken else Exit.DONE


def _leftovers(*, as_json: bool) -> int:
    """List processes and empty control groups of runs whose runner is gone; nothing is ended."""
    from harness.run.family import orphans
    from harness.run.ports import listening
    from harness.run.settle import empty_groups

    processes = [
        {"pid": process.pid, "name": process.name(), "ports": sorted(listening([process]))}
        for process in orphans()
    ]
    groups = [{"group": str(group.folder)} for group in empty_groups()]
    found = [*processes, *groups]
    if as_json:
        print_json(found)
        return Exit.NOT_READY if found else Exit.DONE
    for one in processes:
        ports = "".join(f", listens on {port}" for port in one["ports"])  # type: ignore[attr-defined]
        console().print(f"process {one['pid']} ({one['name']}){ports}")
    for group in groups:
        console().print(f"empty control group {group['group']}", soft_wrap=True)
    if found:
        note("resuming their runs removes them; or end the processes and rmdir the groups yourself")
    else:
        console().print("no process and no control group of a run is left")
    return Exit.NOT_READY if found else Exit.DONE


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    ready = (3, 11) <= sys.version_info < (3, 14)
    return "python", "ok" if ready else "broken", f"{version}; 3.11 to 3.13 are supported"


def _distribution() -> Check:
    """PyPI also has an unrelated `harness`, which overwrites this package's files."""
    names = importlib.metadata.packages_distributions().get("harness", [])
    if "harness" in names:
        detail = "the unrelated distribution `harness` is installed: pip uninstall harness"
        return "distribution", "broken", f"{detail}; pip install --force-reinstall ripe-harness"
    return "distribution", "ok", f"ripe-harness {harness.__version__}"


def _required() -> Check:
    missing = []
    for name in (
        "hydra-core",
        "pydantic",
        "rfc8785",
        "numpy",
        "scipy",
        "torch",
        "safetensors",
        "pandas",
        "pyarrow",
        "rich",
        "psutil",
        "matplotlib",
        "jinja2",
        "filelock",
        "tokenizers",
    ):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return "packages", "broken", f"missing {', '.join(missing)}: pip install ripe-harness"
    return "packages", "ok", "all required packages are installed"


def _torch() -> Check:
    try:
        import torch
    except ImportError as error:
        return "torch", "broken", f"cannot be imported: {error}"
    device = "no CUDA device: CPU plans only"
    if torch.cuda.is_available():
        device = f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}"
    return "torch", "ok", f"{torch.__version__}; {device}"


def _hard_links() -> Check:
    """Locks and ledger records are published by hard link; some file systems have none."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        one, two = Path(folder) / "one", Path(folder) / "two"
        one.write_bytes(b"")
        try:
            os.link(one, two)
        except OSError as error:
            return (
                "hard links",
                "broken",
                f"refused here ({error.strerror}); use another file system",
            )
    return "hard links", "ok", "this file system can publish records exclusively"


def _git() -> Check:
    found = shutil.which("git")
    return "git", "ok" if found else "absent", "found" if found else "locks can't record a commit"


def _cores() -> Check:
    import psutil

    load = psutil.getloadavg()[0]
    cores = psutil.cpu_count() or 1
    busy = load > 0.5 * cores
    detail = f"{cores} cores, load {load:.1f}"
    return "machine", "ok", f"{detail}; timings would be noisy now" if busy else detail


def _sglang() -> Check:
    """SGLang lives in an environment of its own, so that it is never imported here."""
    from harness.run.arm_environment import recipe_environment
    from harness.store.errors import HarnessError
    from harness.store.paths import find_project

    if not sys.platform.startswith("linux"):
        return "sglang", "absent", "runs on Linux only; use WSL on Windows"
    try:
        project = find_project()
    except HarnessError:
        return "sglang", "absent", "no project here whose envs/ could hold it"
    built = []
    for device in ("cpu", "cuda"):
        environment = recipe_environment(project, "sglang", device)
        if environment.record.is_file():
            built.append(f"envs/{environment.root.name} ({device})")
    if built:
        return "sglang", "ok", f"built: {', '.join(built)}"
    free = shutil.disk_usage(project.root).free / 1e9
    short = f"; it needs 3 GB of disk, {free:.1f} are free" if free < _SGLANG_GB else ""
    return "sglang", "absent", f"not built; `harness env create sglang`{short}"


CHECKS: tuple[Callable[[], Check], ...] = (
    _python,
    _distribution,
    _required,
    _torch,
    _hard_links,
    _git,
    _sglang,
    _cores,
)
