"""Rows of a sweep are written in blocks: a kill between two of them loses those of one block, and no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedspd.studies.sweep.rows import BLOCK_SECONDS, COLUMNS, ROWS_FILE, RowFile, begin_rows, read_rows

ROW = dict.fromkeys(COLUMNS)
KILLED = """
import os, signal, sys, time
from pathlib import Path
from fedspd.studies.sweep.rows import BLOCK_SECONDS, COLUMNS, RowFile
file = RowFile(Path(sys.argv[1]))
for key in sys.argv[2].split():
    if key == "later":
        time.sleep(BLOCK_SECONDS)
    else:
        file.add(key, dict.fromkeys(COLUMNS))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sweep").mkdir()
    begin_rows(tmp_path / "sweep", {"what": "a sweep"})
    return tmp_path / "sweep"


@pytest.mark.parametrize(("added", "kept"), [("a b c d", "a"), ("a b later c d e", "a b c")])
def test_a_kill_loses_what_was_added_since_the_last_block_and_nothing_else(added: str, kept: str, folder: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, folder, added], check=False)
    assert killed.returncode == -9
    assert list(read_rows(folder)) == kept.split()
    lines = (folder / ROWS_FILE).read_bytes()
    assert (lines.count(b"\n"), lines[-1:]) == (len(kept.split()), b"\n")


def test_rows_wait_for_their_block_and_are_there_once_the_file_is_closed(folder: Path) -> None:
    file = RowFile(folder)
    for key in "abc":
        file.add(key, ROW)
    assert list(read_rows(folder)) == ["a"], "a sweep waits for the disk once a second, not once a run"
    file.close()
    file.close()
    assert list(read_rows(folder)) == ["a", "b", "c"]
    assert BLOCK_SECONDS <= 1.0, "what a crash may cost"


def test_after_a_kill_within_a_block_rows_go_on_behind_it(folder: Path) -> None:
    file = RowFile(folder)
    file.add("a", ROW)
    whole = (folder / ROWS_FILE).read_bytes()
    (folder / ROWS_FILE).write_bytes(whole + whole[: len(whole) // 2])  # as the disk may have it
    begin_rows(folder, {"what": "a sweep"})
    again = RowFile(folder)
    again.add("b", ROW)
    assert list(read_rows(folder)) == ["a", "b"]
