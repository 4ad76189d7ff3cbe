"""A run's folder is complete or not there at all, and never takes the place of another."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.results import COLUMNS, RunFolder, environment, read_model, read_run, write_run
from fedspd.results.run_folder import _exchanged
from tests.results.made import HISTORY, RECORD, SUMMARY


def write(folder: RunFolder, **changes: Any) -> None:
    parts: dict[str, Any] = {
        "record": RECORD,
        "model": {"weights": np.ones((3, 2)), "classes": np.asarray(["no", "yes"])},
    }
    with folder.staged() as staging:
        write_run(staging, **parts | changes)


@pytest.mark.parametrize("name", ["run", "new/and/nested/run"])
def test_a_written_run_can_be_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(RunFolder(path))
    found = read_run(path)
    assert (found.summary, found.configuration, found.environment) == (
        SUMMARY,
        RECORD.configuration,
        RECORD.environment,
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(found.history[column], HISTORY[column], strict=True)
    model = read_model(path)
    np.testing.assert_array_equal(model["weights"], np.ones((3, 2)))
    assert list(model["classes"]) == ["no", "yes"]
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_what_is_not_finite_is_missing_when_it_is_read_back(tmp_path: Path) -> None:
    write(RunFolder(tmp_path / "run"), record=replace(RECORD, summary=replace(SUMMARY, epsilon=inf, alfv=nan)))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["epsilon"] is None
    assert read_run(tmp_path / "run").summary == replace(SUMMARY, epsilon=None, alfv=None)


OTHERS = {
    "a summary with less": ("summary.json", lambda text: text.replace('"uploads": 100,', "")),
    "a summary with more": (
        "summary.json",
        lambda text: text.replace('"uploads"', '"of another version": 1, "uploads"'),
    ),
    "a summary of another kind": ("summary.json", lambda text: text.replace('"uploads": 100', '"uploads": "many"')),
    "a summary that is cut short": ("summary.json", lambda text: text[:100]),
    "an environment that is a list": ("environment.json", lambda text: "[]"),
    "a history with less": ("history.csv", lambda text: "round,alfv\n1,2\n"),
    "a history with a column twice": (
        "history.csv",
        lambda text: re.sub("^round", "round,round", re.sub("^", "1,", text)),
    ),
    "a history without rows of numbers": ("history.csv", lambda text: text + "many\n"),
    "no configuration": ("config.toml", None),
}


@pytest.mark.parametrize(("name", "change"), OTHERS.values(), ids=OTHERS.keys())
def test_a_folder_of_another_version_or_of_no_run_is_refused_in_one_manner(
    tmp_path: Path, name: str, change: Callable[[str], str] | None
) -> None:
    write(RunFolder(tmp_path / "run"))
    file = tmp_path / "run" / name
    if change is None:
        file.unlink()
    else:
        before = file.read_text()
        file.write_text(change(before))
        assert file.read_text() != before
    with pytest.raises(
        InputError, match=r"^the files of a run must be as this version of fedspd run writes them, got "
    ):
        read_run(tmp_path / "run")


def test_the_environment_names_what_the_numbers_were_computed_with() -> None:
    assert environment().keys() == {"python", "platform", "processors", "libraries"}


def test_an_empty_folder_is_filled_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    write(RunFolder(tmp_path / "link"))
    assert (tmp_path / "empty" / "summary.json").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    write(RunFolder(tmp_path / "run"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match=r"new or empty, got .*run, which already holds a run; name another with"):
        RunFolder(tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").touch()
    with pytest.raises(InputError, match="which already holds files"):
        RunFolder(tmp_path)


def test_a_file_or_a_place_inside_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="which is a file"):
        RunFolder(tmp_path / "file")
    with pytest.raises(InputError, match="file is no folder that can be written to"):
        RunFolder(tmp_path / "file" / "run")


def test_the_current_folder_is_refused_since_it_would_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="which is the current folder"):
        RunFolder(Path())


BROKEN: dict[str, dict[str, Any]] = {
    "a configuration that is no text": {"record": replace(RECORD, configuration=None)},
    "a summary that JSON cannot say": {"record": replace(RECORD, summary=replace(SUMMARY, seed={1, 2}))},
    "a model that needs pickle": {"model": {"weights": np.array([object()])}},
}


@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN.keys())
def test_a_crash_while_writing_leaves_nothing_behind(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        write(RunFolder(tmp_path / "run"), **changes)
    assert not list(tmp_path.iterdir())
    write(RunFolder(tmp_path / "run"))


def test_a_folder_filled_during_the_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "note.txt").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        write(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "note.txt"]


def study(folder: Path, content: str) -> None:
    """Written the way a study is."""
    with RunFolder(folder, replaces="page.json").staged() as staging:
        (staging / "page.json").write_text(content)
        (staging / f"{content}.csv").touch()


def test_an_earlier_study_in_the_same_place_is_replaced_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    for content in ("first", "second"):
        study(tmp_path / "study", content)
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"page.json", "second.csv"}
    assert (tmp_path / "study" / "page.json").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_a_study_reached_through_a_link_is_replaced_where_it_is(tmp_path: Path) -> None:
    study(tmp_path / "study", "first")
    (tmp_path / "link").symlink_to("study")
    study(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "study" / "page.json").read_text() == "second"
    assert {path.name for path in tmp_path.iterdir()} == {"study", "link"}


def test_a_crash_while_writing_leaves_the_earlier_study_as_it_was(tmp_path: Path) -> None:
    study(tmp_path / "study", "first")
    with pytest.raises(FileNotFoundError):
        study(tmp_path / "study", "no/such/name")
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"page.json", "first.csv"}
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_a_folder_without_an_earlier_study_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    write(RunFolder(tmp_path / "run"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note.txt").write_text("mine")
    for name, held in (("run", "a run"), ("other", "files")):
        with pytest.raises(InputError, match=rf"new or empty, got .*{name}, which already holds {held}; name another"):
            RunFolder(tmp_path / name, replaces="page.json")
    assert (tmp_path / "other" / "note.txt").read_text() == "mine"
    assert (tmp_path / "run" / "summary.json").exists()


def test_an_earlier_study_is_never_replaced_by_a_run(tmp_path: Path) -> None:
    study(tmp_path / "study", "first")
    with pytest.raises(InputError, match="which already holds files"):
        RunFolder(tmp_path / "study")


@pytest.mark.parametrize("replaces", [None, "page.json"])
def test_the_current_folder_is_refused_also_where_it_holds_an_earlier_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaces: str | None
) -> None:
    study(tmp_path / "study", "first")
    monkeypatch.chdir(tmp_path / "study")
    with pytest.raises(InputError, match="which is the current folder"):
        RunFolder(Path(), replaces=replaces)


def test_what_a_killed_process_has_staged_is_removed_by_the_next_and_that_of_a_live_one_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, alive = tmp_path / f".run.{ended.pid}", tmp_path / ".run.1"
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "summary.json").write_text("half")
    write(RunFolder(tmp_path / "run"))
    assert {path.name for path in tmp_path.iterdir()} == {"run", alive.name}


def test_folders_change_places_in_one_step_so_that_a_kill_finds_both(tmp_path: Path) -> None:
    study(tmp_path / "one", "first")
    study(tmp_path / "two", "second")
    assert _exchanged(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "one" / "page.json").read_text() == "second"
    assert (tmp_path / "two" / "page.json").read_text() == "first"
    assert not _exchanged(tmp_path / "one", tmp_path / "none")
