"""An ASCII locale in a folder with an odd name: the same digests, and text stays text."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.parsing import utf8
from harness.run.family import run_mark
from harness.store.framed import read_framed
from tests.cli.study import SELECT

COMMAND = [sys.executable, "-c", "from harness.cli.main import entry; entry()"]
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
ROOT = str(Path(__file__).parents[2])
TITLE = "größer, 数"


def said(folder: Path, words: tuple[str, ...], codes: tuple[int, ...] = (0,), **more: str) -> str:
    environment = {**os.environ, "PYTHONPATH": ROOT, **more}
    found = subprocess.run([*COMMAND, *words], cwd=folder, env=environment, capture_output=True,
                           check=False)  # fmt: skip
    assert found.returncode in codes, found.stderr.decode()
    return found.stdout.decode()


def test_the_mark_of_a_run_is_the_same_in_any_locale(tmp_path: Path) -> None:
    folder = tmp_path / "été = 1, zwei 数"
    folder.mkdir()
    mark = "from harness.run.family import run_mark, Path; print(run_mark(Path('logs')))"
    other = subprocess.run([sys.executable, "-c", mark], cwd=folder, capture_output=True,
                           check=True, env={**os.environ, "PYTHONPATH": ROOT, **ASCII})  # fmt: skip
    assert other.stdout.decode().strip() == run_mark(folder / "logs")


def test_text_arguments_are_utf_8_in_any_locale() -> None:
    assert utf8(TITLE) == TITLE
    assert utf8(os.fsdecode(TITLE.encode())) == TITLE
    with pytest.raises(argparse.ArgumentTypeError):
        utf8(os.fsdecode(b"gr\xfc\xdfe"))


@pytest.mark.slow
def test_a_study_goes_its_whole_way(tmp_path: Path) -> None:
    folder = tmp_path / "été = 1, zwei 数"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "toy_select.yaml").write_text(
        SELECT.replace("which toy patch", TITLE), encoding="utf-8"
    )
    show = ("show", "conf=toy_select", "--json")
    plain, ascii_only = json.loads(said(folder, show)), json.loads(said(folder, show, **ASCII))
    assert plain["digest"] == ascii_only["digest"]
    assert ascii_only["plan"]["title"] == TITLE
    for words in (
        ("freeze", "conf=toy_select"),
        ("run", "conf=toy_select"),
        ("archive", "pack", "toy_select", "--output", "a.tar"),
        ("archive", "verify", "a.tar"),
        ("deviate", "toy_select", "--reason", TITLE),
    ):
        said(folder, words, (0, 6), **ASCII)
    records = [path.read_text("utf-8") for path in (folder / "ledgers" / "toy").iterdir()]
    assert sum(f'"reason":"{TITLE}"' in record for record in records) == 1
    run = next((folder / "runs" / "toy_select").iterdir())
    assert read_framed(run / "journal.log")[-1]["event"] == "finished"
