"""Names of locked files, the same on every machine, and the way back to the files.

`conf/…` lies in the project's conf folder, `harness/…` in the installed package, and everything
else is relative to the project. Nothing outside these can be locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import harness
from harness.store.digests import FileTable, check_table, file_table
from harness.store.errors import ChangedError, HarnessError, UsageError
from harness.store.paths import PACKAGED_CONF, Project

PACKAGE_PARENT = Path(harness.__file__).parent.parent
_PACKAGE = "harness/"
_CONF = "conf/"


def name_of(project: Project, path: Path) -> str:
    """Return a file's locked name.

    Raises:
        UsageError: the file lies outside the project and the package.
    """
    if path.is_relative_to(project.conf):
        return _CONF + path.relative_to(project.conf).as_posix()
    if path.is_relative_to(PACKAGED_CONF):
        return "harness/conf/" + path.relative_to(PACKAGED_CONF).as_posix()
    if path.is_relative_to(PACKAGE_PARENT / "harness"):
        return path.relative_to(PACKAGE_PARENT).as_posix()
    if path.is_relative_to(project.root):
        return path.relative_to(project.root).as_posix()
    raise UsageError(
        f"{path.name}: lies outside the project; put it, or a link to its folder, inside"
    )


def locate(project: Project, name: str) -> Path:
    """Return where the file with a locked name is to be found."""
    return _root(project, name) / name


def _root(project: Project, name: str) -> Path:
    if name.startswith(_PACKAGE):
        return PACKAGE_PARENT
    return project.conf.parent if name.startswith(_CONF) else project.root


def table_of(project: Project, paths: Iterable[Path]) -> FileTable:
    """Return the table of files under their locked names.

    Raises:
        UsageError: a link, a device, a name with control characters, or a file outside.
        IncompleteError: a missing file.
    """
    table: FileTable = {}
    for path in sorted(set(paths)):
        name = name_of(project, path)
        table[name] = file_table(path.parent, [path])[path.name]
        if any(ord(character) < 32 or ord(character) == 127 for character in name):
            raise UsageError(f"{name!r}: file names with control characters are refused")
    return table


def differences(project: Project, table: FileTable) -> Iterator[tuple[str, HarnessError]]:
    """Yield the locked name and the error of every file that is missing or not what was locked."""
    for name, entry in table.items():
        try:
            if ".." in Path(name).parts or Path(name).is_absolute():
                raise ChangedError(f"{name}: a locked name never leaves the project")
            check_table(_root(project, name), {name: entry})
        except UsageError as error:
            yield name, ChangedError(str(error))
        except HarnessError as error:
            yield name, error
