"""The chain holds what was appended, in order, and shows every other change (T13, T16–T20)."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ledger.chain import EMPTY, GENESIS, Chain, Head, cut_short
from harness.store.canonical import canonical
from harness.store.clock import Clock
from harness.store.digests import sha256_bytes
from harness.store.errors import ChangedError, IncompleteError, RefusedError, UsageError


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    found = Chain(tmp_path / "ledgers" / "raven")
    for n in range(1, 6):
        found.append("note", {"value": n * 11})
    return found


def test_an_empty_chain_has_the_empty_head(tmp_path: Path) -> None:
    assert Chain(tmp_path / "none").head == EMPTY == Head(0, "0" * 64)


def test_records_are_linked_by_the_digests_of_their_files(chain: Chain) -> None:
    records = chain.verify()
    assert [record.n for record in records] == [1, 2, 3, 4, 5]
    assert records[0].prev == GENESIS
    for before, after in itertools.pairwise(records):
        assert after.prev == sha256_bytes(chain.path(before.n).read_bytes())
    assert chain.head == Head(5, sha256_bytes(chain.path(5).read_bytes()))


def test_a_record_is_canonical_json_with_exactly_these_fields(chain: Chain) -> None:
    data = chain.path(2).read_bytes()
    value = json.loads(data)
    assert set(value) == {"format", "n", "prev", "kind", "at", "body"}
    assert data == canonical(value) + b"\n"


def test_the_clock_stamps_but_does_not_order(chain: Chain) -> None:
    record = chain.append("note", {}, Clock(offset_s=-1e8))
    assert record.n == 6
    assert record.at < chain.records()[0].at


# T13 — values


def test_a_line_separator_is_stored_and_read_again(chain: Chain) -> None:
    text = "one\u2028two\nthree\x85"
    chain.append("note", {"text": text})
    assert chain.verify()[-1].body == {"text": text}
    assert chain.path(6).read_bytes().count(b"\n") == 1


def test_a_lone_surrogate_is_refused_and_nothing_is_written(chain: Chain) -> None:
    before = sorted(chain.folder.iterdir())
    with pytest.raises(UsageError):
        chain.append("note", {"text": "\ud800"})
    assert sorted(chain.folder.iterdir()) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**60])
def test_a_number_without_one_spelling_is_refused(chain: Chain, value: float) -> None:
    with pytest.raises(UsageError):
        chain.append("note", {"value": value})


# T16 — one digit


@pytest.mark.parametrize("k", [1, 3, 5])
def test_one_digit_changed_in_a_record_is_found_there(chain: Chain, k: int) -> None:
    path = chain.path(k)
    path.write_bytes(path.read_bytes().replace(b'"value":' + str(k * 11).encode(), b'"value":9'))
    with pytest.raises(ChangedError, match=rf"0000000{k}\.json|record {k}|0000000{k + 1}\.json"):
        chain.verify()
    with pytest.raises(RefusedError):
        chain.append("note", {})


# T17 — a removed tail


@pytest.mark.parametrize("removed", [1, 3, 5])
def test_a_removed_tail_is_found_and_stops_appending(chain: Chain, removed: int) -> None:
    for k in range(6 - removed, 6):
        chain.path(k).unlink()
    with pytest.raises(ChangedError, match=f"found {5 - removed} records, expected at least 5"):
        chain.verify()
    with pytest.raises(RefusedError, match="restore it from version control"):
        chain.append("note", {})
    assert len(list(chain.folder.iterdir())) == 5 - removed


def test_a_head_recorded_elsewhere_finds_what_the_head_file_cannot(chain: Chain) -> None:
    head = chain.head
    chain.path(5).unlink()
    chain.head_file.write_bytes(canonical(Chain(chain.folder).head.json()) + b"\n")
    assert len(chain.verify()) == 4
    with pytest.raises(ChangedError, match="tail was removed"):
        chain.verify(head)


def test_a_rewrite_of_the_same_length_is_found_by_any_older_head(chain: Chain) -> None:
    old = Head(3, chain.records()[2].digest)
    assert chain.verify(old)
    for path in (*chain.folder.iterdir(), chain.head_file):
        path.unlink()
    for n in range(1, 6):
        chain.append("note", {"value": n})
    assert len(chain.verify()) == 5
    with pytest.raises(ChangedError, match="record 3: rewritten"):
        chain.verify(old)


def test_a_missing_head_file_is_named(chain: Chain) -> None:
    chain.head_file.unlink()
    with pytest.raises(IncompleteError, match=r"raven\.head\.json"):
        chain.verify()
    chain.append("note", {})
    assert len(chain.verify()) == 6


def test_a_missing_record_in_the_middle_is_named(chain: Chain) -> None:
    chain.path(3).unlink()
    with pytest.raises(ChangedError, match="record 3: missing"):
        chain.verify()


# T18 — a cut record


def test_a_record_cut_anywhere_is_incomplete_and_never_glued(chain: Chain) -> None:
    path = chain.path(5)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(IncompleteError, match="record 5: torn tail"):
            chain.verify()
        with pytest.raises(RefusedError):
            chain.append("note", {})
        assert path.read_bytes() == whole[:length]


@given(st.integers(min_value=0, max_value=10_000), st.integers(min_value=1, max_value=255))
@settings(max_examples=200)
def test_a_cut_is_told_from_an_altered_byte(place: int, flip: int) -> None:
    data = bytearray(canonical({"text": "é\u2028", "value": [1, 2.5, None]}) + b"\n")
    data[place % len(data)] ^= flip
    assert not cut_short(bytes(data))


# T19 — several writers, killed at random


def _write(folder: Path, count: int, writer: int) -> None:
    chain = Chain(folder)
    for n in range(count):
        chain.append("note", {"writer": writer, "n": n})


def _race(folder: Path, writers: int, count: int) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write, args=(folder, count, w)) for w in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_four_writers_lose_nothing(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "raven")
    _race(chain.folder, 4, 12)
    records = chain.verify(chain.head)
    assert len(records) == 48
    for writer in range(4):
        mine = [r.body["n"] for r in records if r.body["writer"] == writer]
        assert mine == list(range(12))
    assert chain.strays() == []
    assert json.loads(chain.head_file.read_text()) == chain.head.json()


_WRITER = """
import sys
from pathlib import Path
from harness.ledger.chain import Chain
chain = Chain(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    chain.append("note", {"text": "x" * 2000})
"""


def _kill_rounds(folder: Path, rounds: int) -> None:
    for number in range(rounds):
        writers = [
            subprocess.Popen([sys.executable, "-c", _WRITER, folder], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        time.sleep(0.02 + 0.013 * (number % 7))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
        records = Chain(folder).verify()
        assert records
        assert all(name.endswith(".tmp") for name in Chain(folder).strays())


def test_killed_writers_leave_a_whole_chain(tmp_path: Path) -> None:
    _kill_rounds(tmp_path / "raven", 2)


@pytest.mark.slow
def test_killed_writers_leave_a_whole_chain_twenty_times(tmp_path: Path) -> None:
    _kill_rounds(tmp_path / "raven", 20)
    _race(tmp_path / "more", 4, 50)
    assert len(Chain(tmp_path / "more").verify()) == 200


# T20 — copies, swaps, fields


def test_a_copied_record_is_found(chain: Chain) -> None:
    chain.path(6).write_bytes(chain.path(5).read_bytes())
    with pytest.raises(ChangedError, match="record 6: n: found 5, expected 6"):
        chain.verify()


def test_swapped_records_are_found(chain: Chain) -> None:
    second, third = chain.path(2).read_bytes(), chain.path(3).read_bytes()
    chain.path(2).write_bytes(third)
    chain.path(3).write_bytes(second)
    with pytest.raises(ChangedError, match="record 2: n: found 3"):
        chain.verify()


def test_an_unknown_field_is_found(chain: Chain) -> None:
    value = json.loads(chain.path(5).read_bytes()) | {"note": "x"}
    chain.path(5).write_bytes(canonical(value) + b"\n")
    with pytest.raises(ChangedError, match="record 5: fields differ in note"):
        chain.verify()


def test_a_duplicate_key_is_found(chain: Chain) -> None:
    path = chain.path(5)
    path.write_bytes(path.read_bytes().replace(b'"value":55', b'"value":1,"value":55'))
    with pytest.raises(ChangedError, match=r"record 5: damaged.*twice"):
        chain.verify()


@pytest.mark.parametrize("n", ["true", "1.0", '"5"', "null"])
def test_a_field_of_another_type_is_found(chain: Chain, n: str) -> None:
    path = chain.path(5)
    path.write_bytes(path.read_bytes().replace(b'"n":5', f'"n":{n}'.encode()))
    with pytest.raises(ChangedError, match="record 5"):
        chain.verify()


def test_line_endings_are_named(chain: Chain) -> None:
    path = chain.path(2)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(ChangedError, match="line endings"):
        chain.verify()


def test_a_foreign_file_and_a_link_are_found(chain: Chain) -> None:
    (chain.folder / "notes.txt").write_text("x")
    with pytest.raises(ChangedError, match=r"notes\.txt"):
        chain.verify()
    (chain.folder / "notes.txt").unlink()
    target = chain.path(5).rename(chain.folder.parent / "elsewhere")
    chain.path(5).symlink_to(target)
    with pytest.raises(ChangedError, match="a link or special file"):
        chain.verify()


def test_a_temporary_file_is_only_a_stray(chain: Chain) -> None:
    (chain.folder / ".00000006.json.abc.tmp").write_bytes(b"half")
    assert len(chain.verify()) == 5
    assert chain.strays() == [".00000006.json.abc.tmp"]


def test_a_guard_sees_the_records_and_can_stop_the_append(chain: Chain) -> None:
    seen: list[int] = []

    def guard(records: object) -> None:
        seen.append(len(records))  # type: ignore[arg-type]
        raise RefusedError("no")

    with pytest.raises(RefusedError, match="no"):
        chain.append("note", {}, guard=guard)
    assert seen == [5]
    assert chain.head.count == 5
