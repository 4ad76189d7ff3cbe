"""Work that was begun in a folder and is not done: which command, from where, on what; so that it can go on.

`unfinished.json` is the first thing in the folder of long work and the last to go. A folder that holds it is
unfinished, whatever else is in it, and `fedspd resume` takes up the command that it names.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedspd.errors import InputError
from fedspd.results.files import OWNER_ONLY, WORK_FILE, alone, own_file, sync_files, sync_folder, to_json, write_whole
from fedspd.results.run_folder import RunFolder


@dataclass(frozen=True)
class Work:
    """A command that may be cut off, as it was called."""

    command: tuple[str, ...]  # its name, of one word or two
    arguments: tuple[str, ...]  # as typed, but for --out, which is the folder
    started_in: str  # the folder that relative paths start from
    key: str  # of all that its results depend on; empty where something else sees to it
    secret: int | None = None  # the seed of a run that was drawn, where somebody asked for checkpoints of it
    paid: bool = False  # everything that was paid for is in the folder and on the disk; what follows from it is not yet


def write_work(folder: Path, work: Work) -> None:
    """Mark a folder as unfinished; when this returns, the mark is on the disk."""
    content = to_json({**asdict(work), "digest": _digest(work)}).encode()
    write_whole(folder / WORK_FILE, content, durable=True, mode=OWNER_ONLY)


def is_unfinished(folder: Path) -> bool:
    """Whether work was begun there and is not done."""
    return os.path.lexists(folder / WORK_FILE)


def read_work(folder: Path) -> Work:
    """What was begun in a folder.

    Raises:
        InputError: nothing was, or the file was changed, or is somebody else's: it says what will be run.
    """
    path = own_file(folder, WORK_FILE)
    if not path.exists():
        raise InputError(
            f"expected a folder with unfinished work, got {folder}, which holds no {WORK_FILE}; name "
            "one whose work was cut off."
        )
    if path.stat().st_uid != os.geteuid():
        raise InputError(f"expected work that you began, got {folder} of another user; begin it again under your name.")
    try:
        values = json.loads(path.read_text("utf-8"))
        digest = values.pop("digest")
        values |= {name: tuple(values[name]) for name in ("command", "arguments")}
        work = Work(**{field.name: values[field.name] for field in fields(Work)})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        digest, work = None, None
    if work is None or digest != _digest(work):
        raise InputError(f"expected {path} as it was written, got a file that was changed or is damaged; begin again.")
    return work


@contextmanager
def unfinished(
    folder: Path, work: Work, private: bool, worth_keeping: Callable[[BaseException], bool]
) -> Iterator[Path]:
    """The folder of long work, marked as unfinished until it is left; one process is at it.

    Args:
        folder: new or empty, or one that this work may add to: whoever calls has seen to that.
        work: what is begun.
        private: nobody but its owner can look into a new folder.
        worth_keeping: whether there is something to go on from when an error ends the work; otherwise what it made
            goes away.
    """
    made = _missing(folder)
    mine = bool(made)
    try:
        if made:
            with RunFolder(folder).staged(private) as staging:  # the mark is in it from the beginning
                write_work(staging, work)
        with alone(folder):
            mine = True
            write_work(folder, work)
            yield folder
            sync_files(folder)
            _unmark(folder)
    except BaseException as error:
        if mine and _is_marked(folder, work) and not worth_keeping(error):
            _abandon(folder, made)
        raise


def _missing(folder: Path) -> list[Path]:
    """The folders that have to be made, or at least filled."""
    if folder.exists():
        return [] if any(folder.iterdir()) else [folder]
    return [each for each in (folder, *folder.resolve().parents) if not each.exists()]


def _is_marked(folder: Path, work: Work) -> bool:
    """Whether this work is what a folder is marked with, and not that of somebody else who came first."""
    try:
        return read_work(folder) == work
    except InputError:
        return False


def _abandon(folder: Path, made: list[Path]) -> None:
    """Remove what this work has made: the folder, or its mark on one that was there before."""
    if not made:
        _unmark(folder)
        return
    shutil.rmtree(folder, ignore_errors=True)
    for each in made[1:]:
        with suppress(OSError):  # other work may have moved in
            each.rmdir()


def _unmark(folder: Path) -> None:
    (folder / WORK_FILE).unlink(missing_ok=True)
    sync_folder(folder)


def _digest(work: Work) -> str:
    return hashlib.blake2b(to_json(asdict(work)).encode(), digest_size=16).hexdigest()
