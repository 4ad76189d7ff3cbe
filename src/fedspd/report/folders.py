"""From folders on disk to a page: run folders are drawn over each other, a study brings its own page."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedspd.errors import InputError
from fedspd.report.page import Page, from_json, join
from fedspd.report.runs import RecordedRun, runs_page
from fedspd.results import RunFolder
from fedspd.studies.rows import SWEEP_FILE

RUN_FILES = ("config.toml", "summary.json", "environment.json", "history.csv")
STUDY_FILE = "page.json"


@dataclass(frozen=True)
class _Folder:
    """A folder that holds a run or a study."""

    path: Path
    is_study: bool


def folders_page(folders: Sequence[Path]) -> Page:
    """One page for all folders: first the runs together, then each study."""
    found = [_looked_at(folder) for folder in folders]
    same = [folder.path for folder in found if sum(folder.path.samefile(other.path) for other in found) > 1]
    if same:
        raise InputError(f"a report takes every folder once, got {same[0]} more than once; leave one out.")
    runs = [folder.path for folder in found if not folder.is_study]
    recorded = [_read_run(path, name) for path, name in zip(runs, folder_names(runs), strict=True)]
    pages = [runs_page(recorded)] if recorded else []
    return join([*pages, *(_read_study(folder.path) for folder in found if folder.is_study)])


def folder_names(folders: Sequence[Path]) -> list[str]:
    """The last part of every path, and as many parts before it as it takes to tell all apart."""
    parts = [[_readable(part) for part in folder.resolve().parts] for folder in folders]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def _looked_at(folder: Path) -> _Folder:
    if not folder.is_dir():
        _refuse(folder, "a file" if folder.exists() else "nothing of that name")
    if (folder / STUDY_FILE).is_file():
        return _Folder(folder, is_study=True)
    missing = [name for name in RUN_FILES if not (folder / name).is_file()]
    if len(missing) == len(RUN_FILES):
        _refuse(folder, "a folder that holds neither")
    if missing:
        _refuse(folder, f"a run folder without {' and '.join(missing)}")
    return _Folder(folder, is_study=False)


def _read_run(folder: Path, name: str) -> RecordedRun:
    return RecordedRun(
        name=name,
        summary=_read_object(folder / "summary.json"),
        history=_read_history(folder / "history.csv"),
        configuration=_read_text(folder / "config.toml"),
        environment=_read_object(folder / "environment.json"),
    )


def _read_study(folder: Path) -> Page:
    try:
        return from_json(_read_text(folder / STUDY_FILE))
    except InputError as error:
        raise InputError(f"{folder / STUDY_FILE}: {error}") from error


def study_folder(folder: Path) -> RunFolder:
    """Where a study will be written: a new folder, or one that holds a page that a study wrote.

    A sweep's folder holds rows that may have taken long, so it is never replaced.
    """
    if (folder / SWEEP_FILE).exists():
        raise InputError(
            f"the output folder must be new or hold an earlier study, got the sweep {folder}; name another."
        )
    try:
        _read_study(folder)
    except InputError:
        return RunFolder(folder)
    return RunFolder(folder, replaces=STUDY_FILE)


def _read_object(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON, got: {error}; make the run again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold an object, got {type(value).__name__}; make the run again.")
    return value


def _read_history(path: Path) -> Mapping[str, np.ndarray]:
    """One array per column, whatever columns there are: folders outlive the version that wrote them."""
    names, *rows = [*csv.reader(_read_text(path).splitlines())] or [[]]
    try:
        values = np.array([[float(cell) for cell in row] for row in rows]).reshape(len(rows), len(names))
    except ValueError as error:
        raise InputError(
            f"{path} must hold one number per column in every row, got: {error}; make the run again."
        ) from error
    return dict(zip(names, values.T, strict=True))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a text file that can be read, got: {error}; correct it.") from error


def _readable(part: str) -> str:
    """A name as text; bytes of it that are none are replaced by a sign."""
    return os.fsencode(part).decode("utf-8", "replace")


def _refuse(folder: Path, got: str) -> NoReturn:
    raise InputError(
        f"a report is made from run folders ({', '.join(RUN_FILES)}) or study folders ({STUDY_FILE}), got {folder}, "
        f"{got}; name a folder that fedspd run wrote."
    )
