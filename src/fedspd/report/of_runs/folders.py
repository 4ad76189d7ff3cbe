"""From folders on disk to a page: run folders are drawn over each other, a study brings its own page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from fedspd.errors import InputError
from fedspd.report.of_runs.audited import audit_section
from fedspd.report.of_runs.runs import runs_page
from fedspd.report.page import Page, from_json, join
from fedspd.results import own_file, read_run
from fedspd.results.audit import read_audit
from fedspd.results.run_folder import RUN_FILES

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
    recorded = {name: read_run(path) for path, name in zip(runs, folder_names(runs), strict=True)}
    pages = [runs_page(recorded)] if recorded else []
    audits = {name: read_audit(path) for path, name in zip(runs, recorded, strict=True)}
    parts = tuple(
        audit_section(name if len(recorded) > 1 else "", found) for name, found in audits.items() if found is not None
    )
    pages = [replace(page, sections=(*page.sections, *parts)) for page in pages]
    return join([*pages, *(read_study(folder.path) for folder in found if folder.is_study)])


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


def read_study(folder: Path) -> Page:
    """The page that a study wrote into its folder."""
    path = own_file(folder, STUDY_FILE)
    try:
        return from_json(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a text file that can be read, got: {error}; correct it.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _readable(part: str) -> str:
    """A name as text; bytes of it that are none are replaced by a sign."""
    return os.fsencode(part).decode("utf-8", "replace")


def _refuse(folder: Path, got: str) -> NoReturn:
    raise InputError(
        f"a report is made from run folders ({', '.join(RUN_FILES)}) or study folders ({STUDY_FILE}), got {folder}, "
        f"{got}; name a folder that fedspd run wrote."
    )
