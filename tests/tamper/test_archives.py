"""T32: one deterministic archive; whatever is done to it, or put into it, is found."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.study import harness, ok
from tests.tamper import hands


@pytest.fixture
def packed(study: Path, tmp_path: Path) -> Path:
    path = tmp_path / "toy.tar"
    ok(study, "archive", "pack", "toy", "--output", str(path))
    return path


def check(path: Path, code: int | tuple[int, ...], names: str) -> None:
    result = harness(path.parent, "archive", "verify", str(path))
    assert result.code in (code if isinstance(code, tuple) else (code,)), result
    assert names in result.err, result.err
    assert hands.one_line(result.err)
    assert "verified" not in result.out


def rebuild(path: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> None:
    """Unpack, change the list of members, and write it again with an ordinary tar."""
    with tarfile.open(path) as source:
        members = [(one, source.extractfile(one).read()) for one in source]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for info, data in members:
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    # What the harness writes ends after two blocks of zeros.
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data + bytes(-len(data) % 512) + bytes(1024))


def test_the_same_study_gives_the_same_bytes(study: Path, packed: Path, tmp_path: Path) -> None:
    elsewhere = Path(shutil.copytree(study, tmp_path / "deep" / "elsewhere"))
    for path in elsewhere.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    before = os.umask(0o077)
    try:
        ok(elsewhere, "archive", "pack", "toy", "--output", str(tmp_path / "two.tar"))
    finally:
        os.umask(before)
    assert (tmp_path / "two.tar").read_bytes() == packed.read_bytes()
    ok(tmp_path, "archive", "verify", "toy.tar")
    ok(tmp_path, "verify", "toy.tar")
    rebuild(packed, lambda members: None)
    ok(tmp_path, "archive", "verify", "toy.tar")
    assert harness(study, "archive", "pack", "toy", "--output", str(packed)).code == 2


def test_one_run_is_an_archive_too(study: Path, tmp_path: Path) -> None:
    ok(study, "archive", "pack", "toy_confirm", "--output", str(tmp_path / "run.tar"))
    ok(tmp_path, "archive", "verify", "run.tar")


def test_t32_a_flipped_byte_names_its_member(packed: Path) -> None:
    data = packed.read_bytes()
    for place in range(0, len(data), len(data) // 40):
        packed.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        check(packed, (3, 4), "toy.tar: ")


def test_t32_members_dropped_added_and_replaced(packed: Path) -> None:
    whole = packed.read_bytes()

    def drop(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        del members[5]

    def add(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members.insert(5, (tarfile.TarInfo("conf/more.yaml"), b"x"))

    def link(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info = members[5][0]
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        members[5] = (info, b"")

    def fifo(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info = tarfile.TarInfo("conf/pipe")
        info.type = tarfile.FIFOTYPE
        members.insert(5, (info, b""))

    for change, code, names in ((drop, 4, "missing"), (add, 3, "conf/more.yaml"),
                                (link, 3, "link or special"), (fifo, 3, "conf/pipe")):  # fmt: skip
        packed.write_bytes(whole)
        rebuild(packed, change)
        check(packed, code, names)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../outside", "conf/a\nb", "conf//x", "./x"])
def test_t32_a_member_never_leaves_its_folder(packed: Path, name: str) -> None:
    rebuild(packed, lambda members: members.insert(3, (tarfile.TarInfo(name), b"x")))
    check(packed, 3, "a name")


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 5000, -1, -600, -1024, -1537])
def test_t32_a_file_cut_short_is_incomplete(packed: Path, keep: int) -> None:
    packed.write_bytes(packed.read_bytes()[:keep])
    result = harness(packed.parent, "archive", "verify", str(packed))
    assert result.code in (3, 4)
    assert hands.one_line(result.err)


def test_t32_odd_files_are_refused_at_pack(study: Path, tmp_path: Path) -> None:
    run = hands.run_of(study)
    odd = run / "odd"

    def refused(names: str) -> None:
        result = harness(study, "archive", "pack", "toy", "--output", str(tmp_path / "x.tar"))
        assert result.code == 2, result
        assert names in result.err
        assert not (tmp_path / "x.tar").exists()
        odd.unlink(missing_ok=True)

    odd.symlink_to(run / "run.json")
    refused("link or special")
    os.mkfifo(odd)
    refused("link or special")
    (run / "a\nb").write_text("x")
    refused("control characters")
    (run / "a\nb").unlink()
    ok(study, "archive", "pack", "toy", "--output", str(tmp_path / "x.tar"))


def test_t32_a_changed_study_is_not_packed(study: Path, tmp_path: Path) -> None:
    hands.flip(hands.run_of(study) / "journal.log", 500)
    result = harness(study, "archive", "pack", "toy", "--output", str(tmp_path / "x.tar"))
    assert result.code == 3
    assert "not packed" in result.err
    shutil.rmtree(study / "runs")
    result = harness(study, "archive", "pack", "toy", "--output", str(tmp_path / "x.tar"))
    assert result.code == 4
    assert "not packed" in result.err


def large(study: Path, tmp_path: Path, size: int) -> int:
    """Pack and verify a study with a sparse file in it, and return the most memory it took."""
    with (hands.run_of(study) / "large.bin").open("wb") as handle:
        handle.truncate(size)
    tracemalloc.start()
    try:
        ok(study, "archive", "pack", "toy", "--output", str(tmp_path / "x.tar"))
        ok(tmp_path, "archive", "verify", "x.tar")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_t32_memory_stays_flat(study: Path, tmp_path: Path) -> None:
    assert large(study, tmp_path, 32 << 20) < 24 << 20


@pytest.mark.slow
def test_t32_memory_stays_flat_for_three_gigabytes(study: Path, tmp_path: Path) -> None:
    assert large(study, tmp_path, 3 << 30) < 100 << 20
