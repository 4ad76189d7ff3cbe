"""A run's folder on disk: complete or not there at all. Who writes it stands beside who reads it."""

import ctypes
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.results.evaluation import HELD_OUT, Evaluation, read_evaluations
from fedspd.results.files import (
    OWNER_ONLY_FOLDER,
    WORK_FILE,
    can_hold_files,
    held,
    own_file,
    sync_files,
    sync_folder,
    to_json,
)
from fedspd.results.history import History, read_history
from fedspd.results.inference import Inference, read_inferences
from fedspd.results.outdated import outdated
from fedspd.results.statement import STATEMENT, Statement, read_statement
from fedspd.results.summary import Summary, from_dict

LIBRARIES = ("fedspd", "numpy", "dp-accounting", "scipy", "scikit-learn", "array-api-compat", "matplotlib")
CONFIG, SUMMARY, ENVIRONMENT, HISTORY, MODEL = (
    "config.toml", "summary.json", "environment.json", "history.csv", "model.npz",
)  # fmt: skip
HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
RUN_FILES = (CONFIG, SUMMARY, ENVIRONMENT, HISTORY)
"""What makes a folder a run's."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it, simulated or between real sites; its model is apart."""

    summary: Summary
    history: History
    configuration: str  # TOML
    environment: Mapping[str, Any]
    statement: Statement | None = None  # of what was written before there were any: None
    held_out: Mapping[str, Any] | None = None  # what tells the records again that were held out, if any were
    evaluations: tuple[Evaluation, ...] = ()  # what was measured on them
    inferences: tuple[Inference, ...] = ()  # coefficients with intervals, as they were asked for
    outdated: str = ""  # what readers of the statement must be told, if it leaves out later releases


def write_run(folder: Path, record: RunRecord, model: Mapping[str, np.ndarray]) -> None:
    """Everything that is left of a run, but for its ledger and its picture."""
    (folder / CONFIG).write_text(record.configuration, "utf-8")
    (folder / SUMMARY).write_text(to_json(record.summary.to_dict()) + "\n", "utf-8")
    (folder / ENVIRONMENT).write_text(to_json(record.environment) + "\n", "utf-8")
    if record.held_out is not None:
        (folder / HELD_OUT).write_text(to_json(record.held_out) + "\n", "utf-8")
    record.history.write(folder / HISTORY)
    np.savez(folder / MODEL, allow_pickle=False, **model)


def read_run(folder: Path) -> RunRecord:
    """What `write_run` wrote, but for the model.

    Raises:
        InputError: a file is missing, cannot be read, or is of another version.
    """
    if not folder.is_dir():
        raise InputError(f"expected a run folder, got {folder}, which is no folder; name one that fedspd run wrote.")
    try:
        statement = read_statement(folder) if (folder / STATEMENT).exists() else None
        return RunRecord(
            summary=read_summary(folder),
            history=read_history(own_file(folder, HISTORY)),
            configuration=own_file(folder, CONFIG).read_text("utf-8"),
            environment=_object(own_file(folder, ENVIRONMENT)),
            statement=statement,
            held_out=_object(apart) if (apart := own_file(folder, HELD_OUT)).exists() else None,
            evaluations=read_evaluations(folder),
            inferences=read_inferences(folder),
            outdated="" if statement is None else outdated(folder, statement),
        )
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"the files of a run must be as this version of fedspd run writes them, got those of {folder}: {error}"
        ) from error


def read_summary(folder: Path) -> Summary:
    """The summary alone."""
    return from_dict(_object(own_file(folder, SUMMARY)))


def read_model(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of `model.npz`: weights, average, columns, classes, loss, and how records become rows."""
    with own_file(folder, MODEL).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def environment() -> dict[str, Any]:
    """What the numbers were computed with."""
    from importlib.metadata import version  # loads the standard library's mail and network modules

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


@dataclass(frozen=True)
class RunFolder:
    """Where a run will be written; refused at once if something is there already.

    Args:
        replaces: a folder that holds a file of this name may be replaced.
    """

    path: Path
    replaces: str | None = None

    def __post_init__(self) -> None:
        obstacle = _obstacle(self.path, self.replaces)
        if obstacle:
            raise InputError(
                f"the output folder must be new or empty, got {self.path}, {obstacle}; name another with --out."
            )

    @contextmanager
    def staged(self, private: bool = False) -> Iterator[Path]:
        """A folder beside the target to write into; it takes the target's place at the end, or vanishes.

        Args:
            private: nobody but its owner can look into it, neither before nor after.
        """
        target = self.path.resolve()
        staging = target.with_name(f".{target.name}.{os.getpid()}")
        made = [folder for folder in staging.parents if not folder.exists()]
        staging.parent.mkdir(parents=True, exist_ok=True)
        for folder in made:
            sync_folder(folder.parent)
        _remove_left_behind(target)
        staging.mkdir(mode=OWNER_ONLY_FOLDER if private else 0o777)
        try:
            with held(staging):
                yield staging
                sync_files(staging)
                if self.replaces and (target / self.replaces).exists():
                    _swap(staging, target)
                else:
                    staging.replace(target)
                    sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            for folder in made:
                with suppress(OSError):  # another run may have moved in
                    folder.rmdir()
            raise


def _object(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON, got: {error}; make the run again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold an object, got {type(value).__name__}; make the run again.")
    return value


def _remove_left_behind(target: Path) -> None:
    """What processes that were killed have staged for the same place; nobody can go on from it."""
    for staged in target.parent.iterdir():
        before, _, process = staged.name.rpartition(".")
        if before == f".{target.name}" and process.isdigit() and not Path(f"/proc/{process}").exists():
            with suppress(OSError), held(staged) as alone:
                if alone:
                    shutil.rmtree(staged)


def _swap(staging: Path, target: Path) -> None:
    """Put a new folder in the place of an old one, which goes away only when the new one is there."""
    if _exchanged(staging, target):
        old = staging
    else:
        old = staging.with_name(f"{staging.name}.old")
        target.replace(old)
        staging.replace(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(first: Path, second: Path) -> bool:
    """Let two folders change names at once, so that a crash finds both; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return rename(HERE, os.fsencode(first), HERE, os.fsencode(second), EXCHANGE) == 0


def _obstacle(path: Path, replaces: str | None) -> str | None:
    """Why a run cannot be written there, if it cannot."""
    try:
        if path.exists():
            if not path.is_dir():
                return "which is a file"
            if path.samefile(Path.cwd()):
                return "which is the current folder and would be replaced"
            if (path / WORK_FILE).exists() and not (replaces and (path / replaces).exists()):
                return f"where work was cut off: `fedspd resume {path}` goes on with it"
            if any(path.iterdir()) and not (replaces and (path / replaces).exists()):
                return f"which already holds {'a run' if (path / SUMMARY).exists() else 'files'}"
        home = next(folder for folder in path.resolve().parents if folder.exists())
        if not can_hold_files(home):
            return f"but {home} is no folder that can be written to"
    except (OSError, ValueError) as error:  # a value that is wrong: a zero in the name
        return f"but: {getattr(error, 'strerror', None) or 'no name of a folder'}"
    return None
