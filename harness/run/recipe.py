"""Environments that ship as recipes: an engine's lock file, and what it needs beside packages."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness.store.digests import FileTable, file_table, walk
from harness.store.errors import NotReadyError, UsageError

NAMES = ("sglang",)
"""Engines with a recipe."""
_IMPORTS = (
    "import sglang, sglang.launch_server, sglang.srt.managers.scheduler, "
    "sglang.srt.managers.detokenizer_manager; "
    "from sglang.srt.models.registry import import_model_classes as read; "
    "read('sglang.srt.models')"
)
_SGLANG = Path(harness.__file__).parent / "backends" / "sglang"


@dataclass(frozen=True)
class Recipe:
    """How an engine's environment is made on one kind of device."""

    name: str
    lock: Path
    """Every package with its version and hashes, but for torch where `torch` is set."""
    torch: str | None = None
    """A CPU build, which no lock file can name for every index."""
    stand_ins: Path | None = None
    """Modules that are importable in place of packages which this device never calls."""
    proof: str = "pass"
    """Imports that must work afterwards; they also spare the first start the compilation."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the engine's processes are told on this device."""

    def table(self) -> FileTable:
        """Return the table of the recipe's files."""
        files = [self.lock, *(walk(self.stand_ins) if self.stand_ins else ())]
        kept = [path for path in files if "__pycache__" not in path.parts]
        return file_table(self.lock.parent.parent, kept)

    def install(self, python: Path, site: Path, pip: list[str], run: Callable[..., None]) -> None:
        """Install into an empty environment; `pip` is pip's command line up to the requirements.

        Raises:
            NotReadyError: a step fails.
        """
        if self.torch:
            _install_torch(self.torch, python, pip, run)
        run([*pip, "--no-deps", "--require-hashes", "-r", str(self.lock)])
        if self.stand_ins:
            for file in self.stand_ins.glob("*.py"):
                shutil.copyfile(file, site / file.name)
            (site / "harness_stand_ins.pth").write_text("import harness_stand_ins\n", "utf-8")
        run([str(python), "-c", self.proof], OMP_NUM_THREADS="1", **self.variables)


def recipe_of(name: str, device: str) -> Recipe:
    """Return an engine's recipe for a device, cpu or cuda.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in NAMES:
        raise UsageError(f"recipe: found {name!r}, expected {' or '.join(NAMES)}")
    if device == "cuda":
        return Recipe(name, _SGLANG / "recipe" / "cuda.txt", proof=_IMPORTS)
    return Recipe(
        name,
        _SGLANG / "recipe" / "cpu.txt",
        torch="2.13.0",
        stand_ins=_SGLANG / "stand_ins",
        proof=_IMPORTS,
        variables={"SGLANG_USE_CPU_ENGINE": "1"},
    )


def _install_torch(version: str, python: Path, pip: list[str], run: Callable[..., None]) -> None:
    """Install a CPU build from pip's index, or else from where uv finds PyTorch's own."""
    try:
        run([*pip, f"torch=={version}+cpu"])
    except NotReadyError:
        with tempfile.TemporaryDirectory() as folder:
            run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"])
            run([f"{folder}/bin/uv", "pip", "install", "--quiet", "--python", str(python),
                 "--torch-backend", "cpu", f"torch=={version}"])  # fmt: skip
