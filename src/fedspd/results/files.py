"""Files that are there whole or not at all, and JSON that every program can read."""

import fcntl
import json
import math
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import BadZipFile

from fedspd.errors import InputError

WORK_FILE = "unfinished.json"
"""In a folder whose work is not done."""
OWNER_ONLY, OWNER_ONLY_FOLDER = 0o600, 0o700
"""Modes of what holds records, or what follows from them without noise."""

BROKEN = (
    OSError, ValueError, EOFError, LookupError, TypeError, ArithmeticError, RuntimeError, MemoryError, SyntaxError,
    TokenError, BadZipFile, zlib.error,
)  # fmt: skip
"""What the readers of archives and arrays raise over damaged bytes."""


def write_whole(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o666) -> None:
    """Put a file in its place at once; arguments as of `written_whole`."""
    with written_whole(path, durable=durable, mode=mode) as file:
        file.write(content)


@contextmanager
def written_whole(path: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which is put in its place when all of it is written; an earlier one is replaced.

    Args:
        path: where it goes; links are followed.
        durable: on the disk in the end, its name included.
        mode: of a new file, less what the umask forbids.

    Guarantees:
        Whenever the process ends, there is the old file or the new one, whole.
        What goes wrong leaves nothing beside it.
    """
    place = path.resolve()
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(place)
    except BaseException:
        with suppress(OSError):  # it may never have been there
            draft.unlink()
        raise
    if durable:
        sync_folder(place.parent)


def can_hold_files(folder: Path) -> bool:
    """Whether something can be written there: tried, for permissions do not tell of odd file systems."""
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".fedspd-", dir=folder))
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class NewFile:
    """Where a file will be written; refused at once if something is there already."""

    path: Path
    option: str = "--out"
    mode: int = 0o666  # less what the umask forbids

    def __post_init__(self) -> None:
        folder = self.path.parent
        try:
            obstacle = "which is there already" if self.path.exists() or self.path.is_symlink() else None
            if not obstacle and not can_hold_files(folder):
                obstacle = f"but {folder} is no folder that can be written to"
        except (OSError, ValueError) as error:  # a value that is wrong: a zero in the name
            obstacle = f"but: {getattr(error, 'strerror', None) or 'no name of a file'}"
        if obstacle:
            raise InputError(
                f"the output must be a new file, got {self.path}, {obstacle}; name another with {self.option}."
            )

    def write(self, content: bytes) -> None:
        """All of it, or nothing."""
        write_whole(self.path, content, mode=self.mode)


def own_file(folder: Path, name: str) -> Path:
    """Where a file of a folder is that somebody may have sent.

    Raises:
        InputError: a link that leads out of the folder, which could show files of whoever reads it to others, or no
            plain file: a pipe would never end.
    """
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        obstacle = "a link that leads out of it"
    elif path.exists() and not path.is_file():
        obstacle = "no plain file"
    else:
        return path
    raise InputError(f"the files of {folder} must lie in it, got {name}, {obstacle}; put a copy of the file there.")


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file; when this returns, it is on the disk, and so is the name of a new file."""
    with path.open("ab") as file:
        new = file.tell() == 0
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync_folder(path.parent)


def sync_files(folder: Path) -> None:
    """Write every file of a folder through to the disk, and their names."""
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            sync_folder(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder, or the content of a file, through to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder; whether nobody else does. The hold is gone with the process, whatever ends it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken = True
    except OSError:  # somebody does, or the file system knows no holding
        taken = False
    try:
        yield taken
    finally:
        os.close(opened)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder while something is charged for it and put into it.

    Raises:
        InputError: another process does.
    """
    with held(folder) as taken:
        if not taken:
            raise InputError(
                f"expected work that nobody is at, got {folder}, which another process is at; wait for it, or end it."
            )
        yield


def to_json(value: Any) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value
