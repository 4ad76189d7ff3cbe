"""A file is the old one or the new one, whole, whatever happens while it is written."""

import json
import os
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from fedspd.results import append_line, to_json, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_takes_the_place_of_an_earlier_one_and_nothing_is_left_beside_it(durable: bool, tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        write_whole(tmp_path / "file", content, durable=durable)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_whoever_has_the_earlier_file_open_reads_it_to_its_end(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"first")
    with (tmp_path / "file").open("rb") as earlier:
        write_whole(tmp_path / "file", b"second")
        assert earlier.read() == b"first"


def test_a_file_that_a_link_leads_to_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"content"


def test_what_goes_wrong_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "folder", b"content")
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "such" / "folder", b"content")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "inside"]


def test_a_secret_is_for_its_owner_alone_and_other_files_obey_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "secret", b"content", mode=0o600)
        write_whole(tmp_path / "open", b"content")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("secret", "open")] == [0o600, 0o644]


@pytest.mark.parametrize(("durable", "synced"), [(False, 0), (True, 2)])
def test_a_durable_file_and_its_name_are_written_through_to_the_disk(
    durable: bool, synced: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(os.fstat(file).st_mode), real(file)))
    write_whole(tmp_path / "file", b"content", durable=durable)
    assert len(calls) == synced


def test_lines_are_added_one_below_the_other(tmp_path: Path) -> None:
    for line in (b"one", b"two"):
        append_line(tmp_path / "lines", line)
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"


def test_json_is_strict_so_what_is_not_finite_becomes_null() -> None:
    value = {"a": inf, "b": [-inf, nan, 1.5, np.float64(inf)], "c": {"d": (nan, "inf", True, None, 2)}}
    assert json.loads(to_json(value)) == {
        "a": None,
        "b": [None, None, 1.5, None],
        "c": {"d": [None, "inf", True, None, 2]},
    }


def test_json_keeps_every_bit_of_a_number() -> None:
    numbers = np.random.default_rng(0).standard_normal(100).tolist()
    assert json.loads(to_json(numbers)) == numbers
