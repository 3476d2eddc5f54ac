"""The framed log: a crash can tear only the tail, and a torn tail is set aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.store.errors import ChangedError
from harness.store.framed import FramedLog, frame, read_framed, scan

RECORDS = [{"n": 1}, {"text": "é\u2028\n"}, {"n": 3, "list": [1, 2]}]


def log_of(path: Path) -> bytes:
    with FramedLog(path) as log:
        log.append(*RECORDS)
    return path.read_bytes()


def test_every_cut_keeps_whole_records_and_sets_the_rest_aside(tmp_path: Path) -> None:
    data = log_of(tmp_path / "whole")
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + len(frame(record)))
    for cut in range(len(data)):
        path = tmp_path / f"cut{cut}"
        path.write_bytes(data[:cut])
        kept = sum(end <= cut for end in ends) - 1
        with FramedLog(path) as log:
            log.append({"after": cut})
        assert read_framed(path) == [*RECORDS[:kept], {"after": cut}]
        torn = data[ends[kept] : cut]
        aside = list(tmp_path.glob(f"cut{cut}.torn.*"))
        assert [path.read_bytes() for path in aside] == ([torn] if torn else [])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_byte_is_never_read_as_a_record(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "log"
    path.unlink(missing_ok=True)
    whole = bytearray(log_of(path))
    where = data.draw(st.integers(0, len(whole) - 1))
    whole[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(whole))
    try:
        found = scan(path)
    except ChangedError:
        return
    assert found.torn
    assert found.records == RECORDS[: len(found.records)]


def test_a_damaged_record_before_the_end_is_named(tmp_path: Path) -> None:
    data = log_of(tmp_path / "log").replace(b'"n":1', b'"n":2')
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(ChangedError, match="record 1"):
        scan(tmp_path / "log")
