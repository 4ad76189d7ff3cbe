"""Unfinished work: marked from its beginning to its end, held by one process, known again."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.results import WORK_FILE, Work, is_unfinished, read_work, unfinished

WORK = Work(("sweep",), ("--grid", "privacy.epsilon=1,2", "--seeds", "3"), "/somewhere", "key", 2**64 + 12345)


def never(error: BaseException) -> bool:
    return False


def always(error: BaseException) -> bool:
    return True


def fail(folder: Path) -> None:
    (folder / "part").write_text("of it")
    raise KeyError


def test_a_folder_is_marked_until_its_work_is_done(tmp_path: Path) -> None:
    with unfinished(tmp_path / "runs" / "one", WORK, False, never) as folder:
        assert is_unfinished(folder)
        assert read_work(folder) == WORK
        assert (folder / WORK_FILE).stat().st_mode & 0o777 == 0o600
        (folder / "result").write_text("done")
    assert [path.name for path in folder.iterdir()] == ["result"]


def test_what_came_to_nothing_leaves_nothing_not_even_the_folders_around_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), unfinished(tmp_path / "runs" / "one", WORK, False, never) as folder:
        fail(folder)
    assert not list(tmp_path.iterdir())


def test_what_is_worth_going_on_from_is_kept_with_its_mark(tmp_path: Path) -> None:
    with pytest.raises(KeyError), unfinished(tmp_path / "one", WORK, False, always) as folder:
        fail(folder)
    assert {path.name for path in folder.iterdir()} == {"part", WORK_FILE}
    with unfinished(folder, WORK, False, never):
        (folder / "rest").write_text("of it")
    assert {path.name for path in folder.iterdir()} == {"part", "rest"}


def test_of_a_folder_that_was_there_before_only_the_mark_goes_away(tmp_path: Path) -> None:
    (tmp_path / "study").write_text("of before")
    with pytest.raises(KeyError), unfinished(tmp_path, WORK, False, never):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_a_private_folder_is_private_from_the_beginning(tmp_path: Path) -> None:
    with unfinished(tmp_path / "one", WORK, True, never) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with unfinished(tmp_path / "one", WORK, False, never) as folder:
        for other in (WORK, replace(WORK, arguments=("--seeds", "4"))):
            with pytest.raises(InputError, match="another process is at"), unfinished(folder, other, False, never):
                pass
            assert read_work(folder) == WORK


def test_a_folder_without_unfinished_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"expected a folder with unfinished work, got .*no {WORK_FILE}"):
        read_work(tmp_path)


@pytest.mark.parametrize("name", ["command", "arguments", "started_in", "key", "secret"])
def test_changed_words_are_noticed(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyError), unfinished(tmp_path / "one", WORK, False, always) as folder:
        raise KeyError
    values = json.loads((folder / WORK_FILE).read_text())
    values[name] = ["deploy"] if isinstance(values[name], list) else 1
    (folder / WORK_FILE).write_text(json.dumps(values))
    with pytest.raises(InputError, match="a file that was changed or is damaged"):
        read_work(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"digest": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_such_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WORK_FILE).write_bytes(content)
    with pytest.raises(InputError, match="a file that was changed or is damaged"):
        read_work(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_work_of_another_user_is_not_taken_up(tmp_path: Path) -> None:
    with pytest.raises(KeyError), unfinished(tmp_path / "one", WORK, False, always) as folder:
        raise KeyError
    os.chown(folder / WORK_FILE, 12345, -1)
    with pytest.raises(InputError, match="of another user"):
        read_work(folder)
